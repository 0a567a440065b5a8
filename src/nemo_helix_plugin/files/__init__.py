"""Filesets: folders of files by name."""
