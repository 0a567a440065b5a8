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


@pytest.mark.parametrize(
    ("blocks", "free", "expected"),
    [
        (1000, 10, 40_960),
        (1000, 0, 0),  # what is left is kept for root
        (0, 0, None),  # as file systems before object stores say it: nothing is known
    ],
)
def test_what_is_free_is_what_the_user_may_write_and_unknown_where_nothing_is_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blocks: int, free: int, expected: int | None
) -> None:
    found = (4096, 4096, blocks, free + 50, free, 9, 9, 9, 0, 255)
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(found))
    assert disk.free_bytes(tmp_path) == expected


def test_what_is_free_in_a_folder_that_is_gone_is_not_known(tmp_path: Path) -> None:
    assert disk.free_bytes(tmp_path / "gone") is None
    assert (disk.free_bytes(tmp_path) or 0) > 0
