"""No isolation: programs run as the user, with the user's files and network; limits hold all the same."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from pathlib import Path

from nemo_gym.sandbox.interpreter import SandboxPython
from nemo_gym.sandbox.launching import TEMPORARY, WORK, SandboxCommand, inner_environment
from nemo_gym.sandbox.protocol import Limits
from nemo_gym.sandbox.scratch import MARKER, mark_for
from nemo_runs.errors import ProcessGoneError
from nemo_runs.processes import trees


class Bare:
    """Starts programs as they are."""

    overhead = 0

    def __init__(self, interpreter: SandboxPython) -> None:
        self._interpreter = interpreter

    def versions(self) -> dict[str, str]:
        """It needs no programs."""
        return {}

    def owner(self) -> int | None:
        """See `nemo_gym.sandbox.launching.SandboxKind`."""
        return None

    def launch(
        self, argv: Sequence[str], folder: Path, _limits: Limits, _owner: int | None
    ) -> SandboxCommand:
        """See `nemo_gym.sandbox.launching.SandboxKind`."""
        mark = mark_for(folder)
        env = inner_environment([self._interpreter.bin])
        own = {"HOME": str(folder / WORK), "TMPDIR": str(folder / TEMPORARY), MARKER: mark}
        leftovers = functools.partial(end_marked, mark)
        # a shell, so that a program that is not there has the same exit status as elsewhere
        command = ["/bin/sh", "-c", 'exec "$@"', "sh", *argv]
        return SandboxCommand(argv=command, env=env | own, cwd=str(folder / WORK), end_leftovers=leftovers)


def end_marked(mark: str) -> None:
    """End whatever carries the mark, until nothing does; a program that takes the mark off is not found."""
    while found := trees.marked(MARKER, mark):
        for pid in found:
            with contextlib.suppress(ProcessGoneError):
                trees.kill_process(trees.identify(pid))
