"""Files on their way to the service, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

_PIECE = 1 << 18


def headers(path: Path) -> dict[str, str]:
    """What is said of a file before it comes; raises OSError when it is not there."""
    return {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}


def content(path: Path, *, asynchronous: bool) -> Any:
    """A file's content as the client of that kind takes it."""
    return _awaited(path) if asynchronous else _pieces(path)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


async def _awaited(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
    finally:
        await asyncio.to_thread(file.close)
