"""The Python of a sandbox: a named interpreter, what of the disk it needs, and what it consists of."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.sandbox.protocol import SandboxError
from nemo_runs import homes

DESCRIBE = """
import json, os, platform, sys
from importlib import metadata
named = [(d.metadata["Name"], d.version) for d in metadata.distributions() if d.metadata]
packages = sorted({f"{name.lower().replace('_', '-')}=={version}" for name, version in named if name})
found = {"version": platform.python_version(), "implementation": platform.python_implementation(),
         "packages": packages}
folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix,
           os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))}
folders |= {os.path.realpath(folder) for folder in folders}
print(json.dumps({"contents": found, "folders": sorted(folders), "program": sys.executable}))
"""
"""A program that prints what `described` reads; it runs in any Python."""
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class SandboxPython:
    """One Python with its packages."""

    program: str
    folders: tuple[str, ...]
    """What a sandbox has to show of the disk, beside the system's folders."""
    version: str
    packages: tuple[str, ...]
    """``name==version``, sorted."""
    digest: str
    """Of implementation, version and packages: the same on every machine that has the same."""

    @property
    def bin(self) -> str:
        """The folder of its programs."""
        return str(Path(self.program).parent)


def own_python() -> str:
    """The Python that this program runs on, without the packages that were added to it."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


@functools.cache
def describe(program: str) -> SandboxPython:
    """Ask an interpreter what it is; raises `SandboxError` when it cannot be run."""
    argv = [program, "-I", "-c", DESCRIBE]
    try:
        done = subprocess.run(argv, capture_output=True, check=True, timeout=_TIMEOUT, cwd="/")
        return described(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxError(
            f"the Python of the sandbox, {program}, cannot be asked what it is: {error}"
        ) from error


def described(printed: bytes) -> SandboxPython:
    """What a Python has said of itself; raises `ValueError`."""
    found = json.loads(printed)
    try:
        contents = json.dumps(found["contents"], sort_keys=True).encode()
        return SandboxPython(
            program=found["program"],
            folders=tuple(folder for folder in found["folders"] if not folder.startswith("/usr")),
            version=found["contents"]["version"],
            packages=tuple(found["contents"]["packages"]),
            digest=hashlib.sha256(contents).hexdigest(),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it does not say what it is: {error!r}") from error


def check_folders(interpreter: SandboxPython, environ: Mapping[str, str]) -> None:
    """Refuse one whose folder holds the user's files: the sandbox would show them."""
    home = homes.home(environ).resolve()
    for folder in interpreter.folders:
        if home.is_relative_to(Path(folder).resolve()):
            raise SandboxError(
                f"the Python of the sandbox, {interpreter.program}, is installed in {folder}, which holds "
                "the user's home; name one that has a folder of its own"
            )
