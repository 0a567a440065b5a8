"""The errors of `nemo`: one base, each with the exit status it ends the program with.

Exit statuses (documented in ``docs/reference/exit-codes.md``): 0 done, 1 an error on this side, 2 usage, 3 an
error of the service that was asked, 75 a watch that ended at a pause, 130 interrupted.
A message is one sentence: what is wrong, where, and what would be right. It never holds a secret value.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_DONE = 0
EXIT_LOCAL = 1
EXIT_USAGE = 2
EXIT_REMOTE = 3
EXIT_PAUSED = 75
EXIT_INTERRUPTED = 130


class NemoError(Exception):
    """The command could not do what was asked, for a reason on this side."""

    exit_status: ClassVar[int] = EXIT_LOCAL


class ContextFileError(NemoError):
    """The configuration file, or a variable that overrides it, is not right; the message names both."""


class CommandLoadError(NemoError):
    """An installed command package is broken; the message names it. Other commands still work."""
