"""How one kind of sandbox starts a program; the rest is the same for all kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nemo_gym.sandbox.protocol import Limits

WORK, TEMPORARY, SHARED_MEMORY = "work", "tmp", "shm"
"""The folders of a session, by their names within its own."""
MOUNTED_AT = {WORK: "/work", TEMPORARY: "/tmp", SHARED_MEMORY: "/dev/shm"}  # noqa: S108 - within the sandbox
SPARE_PROCESSES = 8
"""How many more processes the kernel lets a program have than its limit, so that one beyond it is seen."""
SPARE_FILE = 1 << 20
"""The same for the bytes of one file."""
DATA, STATUS = "\0data", "\0status"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def _nothing() -> None:
    """Where nothing can leave the tree."""


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """A command to be started outside of the sandbox, which runs a program in it."""

    argv: Sequence[str]
    """In it `STATUS` stands for the number of a descriptor to which the sandbox writes JSON: which process is
    its first one, and the program's exit status. Without it the exit status of the command counts."""
    env: Mapping[str, str]
    cwd: str = "/"
    data: bytes = b""
    """What is read from the descriptor whose number takes the place of `DATA` in ``argv``."""
    end_leftovers: Callable[[], None] = _nothing
    """Ends what the program has started and what has left its tree; for kinds in which that can be."""


class SandboxKind(Protocol):
    """One kind of sandbox."""

    overhead: int
    """Processes of its own in each tree."""

    def versions(self) -> Mapping[str, str]:
        """Of the programs that it needs, by name."""
        ...

    def owner(self) -> int | None:
        """The user that the files of a new session belong to; ``None``: the one of this process."""
        ...

    def launch(self, argv: Sequence[str], folder: Path, limits: Limits, owner: int | None) -> SandboxCommand:
        """How a program is started in the session with this folder and these limits."""
        ...


def inner_environment(first_on_path: Sequence[str]) -> dict[str, str]:
    """All that a program in a sandbox finds in its environment."""
    return {
        "PATH": os.pathsep.join([*first_on_path, "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": MOUNTED_AT[WORK],
        "TMPDIR": MOUNTED_AT[TEMPORARY],
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # the machine's number of cores would go beyond the limit of processes
        **dict.fromkeys(_ONE_THREAD, "1"),
    }
