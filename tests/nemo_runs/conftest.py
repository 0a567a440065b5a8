"""Folders that are out of the ordinary: full ones and oddly named ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ODD_NAMES = [
    "plain",
    "with space",
    "quote'\"s",
    "$(touch x); echo `id`",
    "new\nline",
    "-dash",
    "ünï✓",
    "x" * 200,
]


@pytest.fixture(params=ODD_NAMES, ids=lambda name: ascii(name)[:12])
def odd_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder whose name is a trap."""
    folder = tmp_path / str(request.param)
    folder.mkdir()
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; skipped where it cannot be mounted (a limit on file size is tested beside)."""
    folder = tmp_path / "small"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
