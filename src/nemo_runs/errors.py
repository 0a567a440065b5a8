"""The errors of this package. Messages say what was wrong, what was found and what to do."""

from __future__ import annotations


class RunsError(Exception):
    """Something about a run's files or processes is not as it must be."""
