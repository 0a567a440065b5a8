"""What the file of an offline W&B run says: which training steps it has, up to where it is whole.

The file is a header of seven bytes and blocks of 32 KiB with records of LevelDB's log format, each a
message of protocol buffers. A process that was killed leaves its last record torn; reading ends there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

HEADER = b":W&B"
_HEADER_SIZE = 7
_BLOCK = 32 * 1024
_RECORD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


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


def files_of(folder: Path, run_id: str) -> list[Path]:
    """The files of a run that were written offline into a folder, the oldest first."""
    return sorted((folder / "wandb").glob(f"offline-run-*-{run_id}/run-{run_id}.wandb"))


def last_step(folder: Path, run_id: str) -> int | None:
    """The last step that was written offline for a run; None where nothing of it is there."""
    files = files_of(folder, run_id)
    return max((step for file in files for step in steps(file)), default=0) if files else None
