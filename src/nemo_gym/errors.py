"""The errors of `gym`: one base, each with the exit status it ends the program with.

Exit statuses (documented in ``docs/reference/exit-codes.md``): 0 done, 1 error, 2 usage; `gym eval run` adds
75 (incomplete, work left to retry), 76 (incomplete, nothing left to retry) and 130 (interrupted); `gym job`
adds 4 (jobs are still alive after a cancel) and 5 (refused).
A message is one sentence: what is wrong, where, and what would be right. It never holds a secret value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

EXIT_DONE = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_ALIVE = 4
EXIT_REFUSED = 5
EXIT_INCOMPLETE = 75
EXIT_EXHAUSTED = 76
EXIT_INTERRUPTED = 130


class GymError(Exception):
    """The command could not do what was asked."""

    exit_status: ClassVar[int] = EXIT_ERROR


class UsageError(GymError):
    """The command line itself is not right."""

    exit_status: ClassVar[int] = EXIT_USAGE


class ConfigError(GymError):
    """A configuration value is missing, unknown or not allowed; the message begins with its dotted path."""


class DataError(GymError):
    """A file holds something that it must not hold; the message names file and line."""


class ResumeRefusedError(GymError):
    """What was recorded does not belong to what is asked now; the message holds the differences."""


class BusyError(GymError):
    """Somebody else is at work on the same output."""


class UnsupportedError(GymError):
    """An executor was asked for something that it cannot do; the message names the executor."""


class RefusedError(GymError):
    """What was asked would do harm now; the message says what prevents it."""

    exit_status: ClassVar[int] = EXIT_REFUSED


class NotOursError(GymError):
    """Jobs were left alone, since nothing proves that they are ours; the message says what comes of it."""

    def __init__(self, message: str, job_ids: Sequence[str]) -> None:
        super().__init__(message)
        self.job_ids = tuple(job_ids)


class StillAliveError(GymError):
    """Jobs were to be ended and are not: nothing was asked of any; the message says what to do first."""

    exit_status: ClassVar[int] = EXIT_ALIVE


class SubmitError(GymError):
    """Jobs were queued, but the submission could not be finished; the message names every queued job."""
