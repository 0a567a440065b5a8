"""A file system of a few megabytes, so that a full disk is a real one; it needs the right to mount."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """Mount one at a folder that is not there yet; skips the test where that is not allowed."""
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "none", str(folder)]
    if subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Take all the room there is, in a file named ``ballast``."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        for size in (65536, 4096):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
