"""The errors of this package.

SlurmError
├── UnusableValueError          a value that cannot be written on an ``#SBATCH`` line or name a host
├── CommandFailedError          a command ended with a status that was not expected
│   ├── StorageFullError            … since what was to be written did not fit
│   └── RefusedError            the scheduler said no, in its own words
│       ├── NotAcceptedError    … or never heard of the job: asking again is safe
│       └── SubmitLimitError    … because too many jobs are queued already: later may help
├── CommandMissingError         the host has no such command where commands are looked for
├── PathExistsError             a copy would have overwritten something
├── NoSuchPathError             nothing of that name on the host
└── NotReachableError           silence: nothing was learnt, whatever was asked for may or may not be so
    ├── ChangedError            … since a file changed or vanished while it was copied: copy again
    └── NotConnectedError       … before anything was sent: nothing was asked for
        └── LoginNeededError    … until a person logs in

A `NotReachableError` never means that a job is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_TEXT, _BEGINNING = 800, 400
"""Characters of what a command said that a message has, and how many of them are those that came first."""


class SlurmError(Exception):
    """Something between this program and a cluster is not as it must be."""


class UnusableValueError(SlurmError):
    """A value that another program would read as something else; the message names its place."""


class CommandFailedError(SlurmError):
    """A command ended with a status that was not expected."""

    def __init__(self, argv: Sequence[str], status: int, text: str, *, where: str = "") -> None:
        self.argv = tuple(argv)
        self.status = status
        self.text = text.strip()
        """What the command said, as it said it."""
        place = f" on {where}" if where else ""
        shown = self.text or "it said nothing"
        if len(shown) > _LONGEST_TEXT:
            shown = f"{shown[:_BEGINNING]} … {shown[_BEGINNING - _LONGEST_TEXT :]}"
        super().__init__(f"{argv[0]}{place} ended with status {status}: {shown}")


class StorageFullError(CommandFailedError):
    """What was to be written did not fit: the disk is full, or a quota is used up."""

    def __init__(self, text: str, *, where: str, path: str) -> None:
        super().__init__(["writing"], 1, text, where=where)
        self.args = (f"no space is left at {path} on {where}",)


class SchedulerRefusedError(CommandFailedError):
    """The scheduler refused; `text` is what it said."""


class NotAcceptedError(SchedulerRefusedError):
    """The reply was lost and no such job appeared: it was never accepted, so asking again is safe."""


class SubmitLimitError(SchedulerRefusedError):
    """Refused because of a limit on queued jobs; the same may be accepted later."""


class CommandMissingError(SlurmError):
    """A command is not on the PATH of commands that are run without a terminal."""


class PathExistsError(SlurmError):
    """Something of that name is there already; nothing was written."""


class NoSuchPathError(SlurmError):
    """There is nothing of that name."""


class NotReachableError(SlurmError):
    """The host, the controller or accounting did not answer. Nothing is known about what was asked for."""


class ChangedError(NotReachableError):
    """A file changed or vanished while it was copied. What had arrived whole before it stays."""


class NotConnectedError(NotReachableError):
    """The host could not be reached at all, so nothing happened there."""


class LoginNeededError(NotConnectedError):
    """The host asks for something that only a person can give."""
