"""The errors of this package. Messages say what was wrong, what was found and what to do."""

from __future__ import annotations


class RunsError(Exception):
    """Something about a run's files or processes is not as it must be."""


class DiskFullError(RunsError):
    """A write did not fit (disk full, quota or file size limit); what was there before is still whole."""


class ProcessGoneError(RunsError):
    """No process with this number exists."""


class DurationError(RunsError):
    """A value is not a duration; the message begins with its place."""


class SecretReferenceError(RunsError):
    """A reference to a variable is malformed or names a variable that is not set; never holds a value."""


class LeaseError(RunsError):
    """Devices or slots cannot be leased as asked, or the book of leases cannot be used."""


class EntryPointError(RunsError):
    """What another package offers cannot be used; the message names the package."""
