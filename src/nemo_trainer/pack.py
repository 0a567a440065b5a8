"""Packs this package and `nemo_runs` into one file that any Python 3.11 runs, for images without Baton.

``python -m nemo_trainer.pack baton-trainer.pyz``; then ``python -I -S baton-trainer.pyz`` names its commands,
and with ``PYTHONPATH=baton-trainer.pyz`` a training script imports ``nemo_trainer``. Equal sources make equal
bytes.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from nemo_runs.durable.files import replace_file

_PACKAGES = ("nemo_runs", "nemo_trainer")
_WHEN = (1980, 1, 1, 0, 0, 0)
_MAIN = b"import sys\nfrom nemo_trainer.__main__ import main\nsys.exit(main())\n"
_SHEBANG = b"#!/usr/bin/env python3\n"


def build(target: Path) -> None:
    """Write the file, executable; raises `OSError` and `nemo_runs.errors.RunsError`."""
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN)
        for package in _PACKAGES:
            for name, data in _sources(resources.files(package), package):
                _add(archive, name, data)
    replace_file(target, buffer.getvalue(), mode=0o755)


def main(argv: Sequence[str] | None = None) -> int:
    """The program; its only argument is the file to write."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -m nemo_trainer.pack FILE.pyz\n")
        return 2
    build(Path(arguments[0]))
    print(arguments[0])
    return 0


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            found += _sources(entry, f"{prefix}/{entry.name}")
        elif entry.name.endswith((".py", ".md", "py.typed")):
            found.append((f"{prefix}/{entry.name}", entry.read_bytes()))
    return found


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _WHEN)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


if __name__ == "__main__":
    sys.exit(main())
