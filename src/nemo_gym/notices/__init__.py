"""Notices that a benchmark has ended, has failed, or makes no progress."""
