"""A journal: one JSON object a line, appended by any number of processes, readable after any crash."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_runs.durable import disk, rows

__all__ = ["Journal", "read_journal"]


class Journal:
    """Appends events to a file; each `append` opens it again, so several processes may share a journal."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: Mapping[str, object]) -> None:
        """Append one event, durably, by one ``write``.

        A line that a crash left torn is ended first, so that it never swallows this one. Raises `TypeError`
        for what JSON cannot hold and `nemo_runs.errors.DiskFullError` when it does not fit.
        """
        line = json.dumps(event, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with disk.full_disk_named(self.path):
            descriptor = os.open(self.path, flags, 0o644)
            try:
                if _torn(descriptor):
                    line = b"\n" + line
                if os.write(descriptor, line) != len(line):
                    raise disk.full_disk(self.path, "only a part of an event fitted")
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Every whole event in order; lines that a crash tore are left out, a missing journal is empty."""
    try:
        return [event for line in rows.read_lines(path) if (event := _parse(line)) is not None]
    except FileNotFoundError:
        return []


def _torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
