"""How the service and the cluster say the same of files: digests, bytes as text, and reading them safely.

Standard library and `nemo_runs` only: both sides use it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from nemo_runs.durable.disk import read_regular

SMALL = 16 << 20
"""Bytes of a file that is sent as a whole; a larger one is not what it should be."""


def digest(data: bytes) -> str:
    """A short digest, for telling whether two sides have the same."""
    return hashlib.sha256(data).hexdigest()[:32]


def text(data: bytes) -> str:
    """Bytes as a text that JSON carries, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def raw(shown: str) -> bytes:
    """The bytes of such a text."""
    return shown.encode("utf-8", "surrogateescape")


def read_small(path: Path, within: Path) -> bytes | None:
    """A small file that a workload may have made; no pipe is waited for, no link leads out of ``within``."""
    try:
        return read_regular(path, most=SMALL, within=within)
    except OSError:
        return None


def status_of(path: Path) -> os.stat_result | None:
    """What the disk says of a file, of a link itself; `None`: it is not there, or cannot be seen."""
    try:
        return path.lstat()
    except OSError:
        return None
