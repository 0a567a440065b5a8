"""Files on their way to the service, piece by piece. One that changes meanwhile does not arrive."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import IO, Any

from nemo_helix_plugin.client.errors import FileChangedError

_PIECE = 1 << 18


def outgoing(path: Path, *, asynchronous: bool) -> tuple[dict[str, str], Any]:
    """What is said of a file before it comes, and its content as the client of that kind takes it.

    Raises OSError when it is not there, and `FileChangedError` while it is sent.
    """
    announced = path.stat()
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(announced.st_size)}
    pieces = _pieces(path, announced)
    return headers, _awaited(pieces) if asynchronous else pieces


def _pieces(path: Path, announced: os.stat_result) -> Generator[bytes, None, None]:
    """The last piece stays back until the file is known to be as it was: without it nothing is kept."""
    with path.open("rb") as file:
        held, left = b"", announced.st_size
        while left > 0 and (piece := file.read(min(_PIECE, left))):
            left -= len(piece)
            if held:
                yield held
            held = piece
        _check_unchanged(path, file, announced)
        if held:
            yield held


def _check_unchanged(path: Path, file: IO[bytes], announced: os.stat_result) -> None:
    for now in (os.fstat(file.fileno()), path.stat()):
        if any(
            getattr(now, name) != getattr(announced, name) for name in ("st_ino", "st_size", "st_mtime_ns")
        ):
            raise FileChangedError(
                f"the file {path} changed while it was sent, so it was not kept; send it again when nobody "
                "writes to it"
            )


async def _awaited(pieces: Generator[bytes, None, None]) -> AsyncIterator[bytes]:
    try:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece
    finally:
        await asyncio.to_thread(pieces.close)
