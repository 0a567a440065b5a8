"""What names the software that a command would run in, so that a change of it can be noticed.

For a command of a Python environment that is its interpreter with the names and versions of all installed
packages; for anything else the program's own content. Standard library only: the nodes of a cluster load it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

_CHUNK = 1 << 20


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
            self._programs[key] = content_digest(path)
        return self._programs[key]

    def _installed(self, folder: Path) -> str:
        key = (str(folder), folder.stat().st_mtime_ns)
        if key not in self._packages:
            names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
            self._packages[key] = hashlib.sha256("\n".join(names).encode()).hexdigest()
        return self._packages[key]


def _package_folders(program: Path) -> list[Path]:
    """The ``site-packages`` of the environment that a program belongs to, when it is one of Python."""
    root = program.absolute().parent.parent
    if not (root / "pyvenv.cfg").exists() and not program.name.startswith("python"):
        return []
    return sorted(root.glob("lib/python3*/site-packages"))


def content_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()
