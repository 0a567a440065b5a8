"""What the file of an offline W&B run says: which training steps it has, up to where it is whole.

The file is a header of seven bytes and blocks of 32 KiB with records of LevelDB's log format, each a
message of protocol buffers. A process that was killed leaves its last record torn; reading ends there.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

HEADER = b":W&B"
_HEADER_SIZE = 7
_BLOCK = 32 * 1024
_RECORD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_FIRST_LOOK, _LONGEST_LOOK = 0.01, 1.0
"""Seconds between two looks at a file that is being written; twice as many each time."""


def records(path: Path) -> Iterator[bytes]:
    """The whole records of a file, in order; none for a file of another kind."""
    data = path.read_bytes()
    if not data.startswith(HEADER):
        return
    parts = b""
    for kind, piece in _pieces(data):
        parts = piece if kind in {_FULL, _FIRST} else parts + piece
        if kind in {_FULL, _LAST}:
            yield parts


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = _HEADER_SIZE
    while place + _RECORD.size <= len(data):
        left = _BLOCK - place % _BLOCK
        if left < _RECORD.size:
            place += left
            continue
        checksum, length, kind = _RECORD.unpack_from(data, place)
        end = place + _RECORD.size + length
        piece = data[place + _RECORD.size : end]
        if kind not in {_FULL, _FIRST, _MIDDLE, _LAST} or len(piece) < length:
            return
        if zlib.crc32(bytes([kind]) + piece) != checksum:
            return
        yield kind, piece
        place = end


def steps(path: Path) -> list[int]:
    """The training steps of a file, in the order in which they were logged."""
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415 - of the environment that this runs in

    found = []
    for data in records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            found.append(int(record.history.step.num))
    return found


def has_end(path: Path) -> bool:
    """Whether a file has the end of its run, and so all that was logged before."""
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415 - of the environment that this runs in

    record = wandb_internal_pb2.Record()
    for data in records(path):
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "exit":
            return True
    return False


def wait_for_end(path: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return once the end of a run that is being finished is in its file, and the file on the disk.

    It waits as long as that takes; the caller has the time limit.
    """
    size, pause = -1, _FIRST_LOOK
    while True:
        with contextlib.suppress(FileNotFoundError):
            before, size = size, path.stat().st_size
            # a file that is large takes long to read, so it is read only when it has grown
            if size != before and has_end(path):
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                return
        sleep(pause)
        pause = min(2 * pause, _LONGEST_LOOK)


def files_of(folder: Path, run_id: str) -> list[Path]:
    """The files of a run that were written offline into a folder, the oldest first."""
    return sorted((folder / "wandb").glob(f"offline-run-*-{run_id}/run-{run_id}.wandb"))


def last_step(folder: Path, run_id: str) -> int | None:
    """The last step that was written offline for a run; None where nothing of it is there."""
    files = files_of(folder, run_id)
    return max((step for file in files for step in steps(file)), default=0) if files else None
