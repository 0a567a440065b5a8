"""Files that others write are read without waiting for anybody, and without end."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from nemo_runs.durable import disk


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [pipe, link_to_a_device, Path.mkdir, unix_socket])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    path = Path("thing")
    make(path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=r"regular file|No such device"):
        disk.read_regular(path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_file_is_read_whole(tmp_path, size):
    (tmp_path / "file").write_bytes(b"x" * size)
    assert disk.read_regular(tmp_path / "file", most=100) == b"x" * size


def test_a_file_that_is_too_large_is_refused_before_it_is_in_memory(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 100 bytes") as refused:
        disk.read_regular(tmp_path / "file", most=100)
    assert refused.value.errno == errno.EFBIG
