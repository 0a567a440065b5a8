"""The end of a run's log, and what changes when the log grows."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nemo_helix_server.logs.writer import part_numbers
from nemo_helix_server.storage import run_files
from nemo_runs.durable.disk import open_regular

_TAIL = 1 << 16


def last_messages(folder: Path) -> list[str]:
    """The last messages of the log in a run's folder, oldest first; of each part 64 KiB."""
    try:
        older = [folder / f"output.{number}.jsonl" for number in part_numbers(folder)[-1:]]
    except OSError:
        return []
    lines = [line for path in [*older, folder / run_files.OUTPUT] for line in _last_bytes(path).split(b"\n")]
    return [message for line in lines if (message := _message(line)) is not None]


def _last_bytes(path: Path) -> bytes:
    try:
        with open(open_regular(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""


def _message(line: bytes) -> str | None:
    try:
        return str(json.loads(line)["m"]).encode("utf-8", "replace").decode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def mark(folder: Path) -> tuple[int, int, int] | None:
    """What changes whenever a line is added to the log in a run's folder; `None` without one."""
    try:
        status = (folder / run_files.OUTPUT).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
