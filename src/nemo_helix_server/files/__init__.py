"""Filesets: folders of files by name, on this machine or at any address that fsspec knows."""
