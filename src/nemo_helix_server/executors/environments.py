"""What names the software that a command would run in, so that a change of it can be noticed.

For a command of a Python environment that is its interpreter with the names and versions of all installed
packages; for anything else the program's own content.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.executors.base import EngineFinder

_CHUNK = 1 << 20
_HANDED_ON = (
    "PATH",
    "VIRTUAL_ENV",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
)
"""What a step on this machine sees of the service's own environment."""


def local_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the service's environment a step on the same machine is given."""
    return {name: environ[name] for name in _HANDED_ON if name in environ}


def local_program(argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Whether the program of a command is on this machine."""
    return bool(argv) and shutil.which(argv[0], path=environment.get("PATH", os.defpath)) is not None


class Environments:
    """Digests of environments; what did not change on disk is not read again."""

    def __init__(self) -> None:
        self._programs: dict[tuple[str, int, int, int], str] = {}
        self._packages: dict[tuple[str, int], str] = {}

    def digest(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
        """``sha256:…`` of the program (and packages) that ``argv`` would run; `None` when not readable."""
        found = shutil.which(argv[0], path=environment.get("PATH")) if argv else None
        if found is None:
            return None
        try:
            parts = [self._program(Path(found).resolve(strict=True))]
            parts += [self._installed(folder) for folder in _package_folders(Path(found))]
        except OSError:
            return None
        if len(parts) == 1:
            return f"sha256:{parts[0]}"
        return f"sha256:{hashlib.sha256(' '.join(parts).encode()).hexdigest()}"

    def _program(self, path: Path) -> str:
        status = path.stat()
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._programs:
            self._programs[key] = _content(path)
        return self._programs[key]

    def _installed(self, folder: Path) -> str:
        key = (str(folder), folder.stat().st_mtime_ns)
        if key not in self._packages:
            names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
            self._packages[key] = hashlib.sha256("\n".join(names).encode()).hexdigest()
        return self._packages[key]


class LocalPlace:
    """This machine, as a place to run; see `nemo_helix_server.executors.base.RunPlace`."""

    def __init__(self, environ: Mapping[str, str], environments: Environments) -> None:
        """``environ`` is the service's environment, of which runs are given a part."""
        self._environ = environ
        self._environments = environments

    def environment(self) -> Mapping[str, str]:
        """See the protocol."""
        return local_environment(self._environ)

    def machine(self) -> TrainingMachine | None:
        """See the protocol: the service's own."""
        return None

    def engine(self, name: str, here: EngineFinder) -> EngineFacts:
        """See the protocol: the service's own."""
        return here(name)

    def python(self) -> str | None:
        """See the protocol: the service's own."""
        return None

    def has_program(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
        """See the protocol."""
        return local_program(argv, environment)

    def environment_digest(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
        """See the protocol."""
        return self._environments.digest(argv, environment)


def _package_folders(program: Path) -> list[Path]:
    """The ``site-packages`` of the environment that a program belongs to, when it is one of Python."""
    root = program.absolute().parent.parent
    if not (root / "pyvenv.cfg").exists() and not program.name.startswith("python"):
        return []
    return sorted(root.glob("lib/python3*/site-packages"))


def _content(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()
