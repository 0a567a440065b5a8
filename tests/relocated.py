"""Folders that another version or machine wrote, put in a folder of this machine.

Their files are stored as texts with names in braces for what differs from machine to machine: ``{ROOT}`` (the
folder that they were written for), ``{BIN}`` (programs), ``{TESTS}``, ``{SOURCES}`` and ``{HOST}``.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

TESTS = Path(__file__).parent
FIXTURES = TESTS / "fixtures"


def text_of(source: Path, root: Path) -> str:
    """A stored file as it would be had it been written for ``root`` on this machine."""
    text = source.read_text(encoding="utf-8")
    values = {
        "ROOT": root,
        "BIN": Path(sys.executable).parent,
        "TESTS": TESTS,
        "SOURCES": TESTS.parent / "src",
        "HOST": socket.gethostname(),
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def place(source: Path, target: Path, root: Path) -> None:
    """Write every file below ``source`` to the same place below ``target``."""
    for path in source.rglob("*"):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text_of(path, root), encoding="utf-8")
