"""A file that somebody writes to while it is sent does not arrive."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_helix_plugin.client import errors, uploads

SIZE = 3 * (1 << 18)


def grow(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"more")


def shrink(file: Path) -> None:
    os.truncate(file, 10)


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(b"1" * SIZE)
    other.replace(file)


def write_into(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.write(b"1")
    os.utime(file, ns=(0, 1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"0" * SIZE)
    return path


@pytest.mark.parametrize("change", [grow, shrink, replace, write_into])
def test_a_file_that_changes_on_the_way_is_never_sent_whole(
    file: Path, change: Callable[[Path], None]
) -> None:
    headers, pieces = uploads.outgoing(file, asynchronous=False)
    sent = [len(next(pieces))]
    change(file)
    with pytest.raises(errors.FileChangedError, match="weights changed while it was sent"):
        sent.extend(map(len, pieces))
    assert sum(sent) < int(headers["Content-Length"]) == SIZE


def test_a_file_that_stays_is_sent_whole_with_await_too(file: Path, tmp_path: Path) -> None:
    async def received(path: Path) -> bytes:
        _, pieces = uploads.outgoing(path, asynchronous=True)
        return b"".join([piece async for piece in pieces])

    assert asyncio.run(received(file)) == b"0" * SIZE
    (tmp_path / "empty").touch()
    assert asyncio.run(received(tmp_path / "empty")) == b""
