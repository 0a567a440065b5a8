"""Isolation by ``apptainer``, which many clusters have: the programs of an image, and no files of the user.

The options are those of Apptainer 1.1 and later. An image brings its own Python. Apptainer bounds nothing by
itself; the number of processes is watched here and not bounded by the kernel.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from nemo_gym.sandbox.bare import end_marked
from nemo_gym.sandbox.launching import (
    MOUNTED_AT,
    SHARED_MEMORY,
    STATUS,
    TEMPORARY,
    WORK,
    SandboxCommand,
    inner_environment,
)
from nemo_gym.sandbox.protocol import Limits, SandboxError
from nemo_gym.sandbox.scratch import MARKER, mark_for, program

_ISOLATED = (
    # no folder of the machine, no environment, process numbers and shared memory of its own
    "--containall",
    "--cleanenv",
    # nor what the site's configuration adds
    "--no-mount",
    "bind-paths,hostfs,cwd,sys",
    "--no-privs",
    "--no-eval",
    "--no-umask",
    # a network without a device
    "--net",
    "--network",
    "none",
    "--hostname",
    "sandbox",
)
_BEGIN = 'echo "{\\"began\\": true}" >"/proc/self/fd/$1"; shift; exec "$@"'
"""By the path, since the shell of many images (dash) knows no descriptor that has two digits."""
_TIMEOUT = 20.0


class Apptainer:
    """Starts programs by ``apptainer exec``."""

    overhead = 3
    """The one outside, the one that watches, and the first one inside."""

    def __init__(self, image: str, read_only: Sequence[str] = ()) -> None:
        """``image``: a file or folder on this machine. Raises `SandboxError` where something is missing."""
        if os.geteuid() == 0:
            raise SandboxError("apptainer leaves root's programs root; as root use bubblewrap")
        if not Path(image).exists():
            raise SandboxError(f"the image of the sandbox, {image}, is not there")
        found = program("apptainer")
        if found is None:
            raise SandboxError("the program apptainer is not there")
        self._program = found
        self._image = image
        self._read_only = tuple(read_only)

    def versions(self) -> dict[str, str]:
        """What the program says."""
        return {"apptainer": _version(self._program)}

    def owner(self) -> int | None:
        """See `nemo_gym.sandbox.launching.SandboxKind`."""
        return None

    def launch(
        self, argv: Sequence[str], folder: Path, _limits: Limits, _owner: int | None
    ) -> SandboxCommand:
        """See `nemo_gym.sandbox.launching.SandboxKind`."""
        mark = mark_for(folder)
        binds = [(folder / name, MOUNTED_AT[name], "rw") for name in (TEMPORARY, SHARED_MEMORY)]
        binds += [(Path(path), path, "ro") for path in self._read_only]
        command = [
            self._program,
            "--silent",
            "exec",
            *_ISOLATED,
            *("--home", f"{folder / WORK}:{MOUNTED_AT[WORK]}", "--pwd", MOUNTED_AT[WORK]),
            *(word for source, place, how in binds for word in ("--bind", f"{source}:{place}:{how}")),
            self._image,
            *("/bin/sh", "-c", _BEGIN, "sh", STATUS),
            *argv,
        ]
        if any(character in str(folder) + "".join(self._read_only) for character in ":,"):
            raise SandboxError(f"apptainer takes no folder with a colon or a comma in its name: {folder}")
        # an image has a search path of its own, and the home is the folder
        inner = inner_environment([]) | {MARKER: mark}
        del inner["HOME"], inner["PATH"]
        env = {f"APPTAINERENV_{name}": value for name, value in inner.items()}
        env |= {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", MARKER: mark}
        return SandboxCommand(argv=command, env=env, end_leftovers=functools.partial(end_marked, mark))


@functools.cache
def _version(found: str) -> str:
    try:
        done = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{found} cannot be run: {error}") from error
    return done.stdout.rpartition(" ")[2].strip()
