"""Whole files: replaced by rename, created once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nemo_runs.durable import disk, files
from nemo_runs.durable.files import DiskFullError, create_file, replace_file


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links, as far as `os.link` goes."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


def test_a_file_is_created_and_replaced_under_any_name(odd_folder: Path) -> None:
    path = odd_folder / odd_folder.name
    create_file(path, b"one")
    replace_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(odd_folder) == [path.name]


def test_a_name_of_the_greatest_length_can_be_replaced(tmp_path: Path) -> None:
    replace_file(tmp_path / ("n" * 255), b"x")
    assert names(tmp_path) == ["n" * 255]


def test_the_mode_is_exact_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "shared", b"")
        create_file(tmp_path / "own", b"", mode=0o600)
        create_file(tmp_path / "all", b"", mode=0o666)
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("shared", "own", "all")] == [0o644, 0o600, 0o666]


def test_a_secret_file_is_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(data: bytes) -> bytes:
        seen.extend(mode(path) for path in tmp_path.iterdir())
        return data

    original = disk.write_all
    monkeypatch.setattr(disk, "write_all", lambda descriptor, data: original(descriptor, look(data)))
    replace_file(tmp_path / "job.sh", b"export KEY=x", mode=0o600)
    assert seen == [0o600]


def test_replacing_a_link_leaves_its_target_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(target)
    replace_file(link, b"new")
    assert (target.read_text(), link.is_symlink(), link.read_text()) == ("old", False, "new")


def test_an_existing_file_is_not_created_again(tmp_path: Path) -> None:
    create_file(tmp_path / "claim", b"first")
    with pytest.raises(FileExistsError) as error:
        create_file(tmp_path / "claim", b"second")
    assert error.value.filename == str(tmp_path / "claim")
    assert (tmp_path / "claim").read_bytes() == b"first"
    assert names(tmp_path) == ["claim"]


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "claim").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "claim", b"x")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("hard_links", [True, False])
def test_of_many_creators_exactly_one_succeeds(
    tmp_path: Path, hard_links: bool, request: pytest.FixtureRequest
) -> None:
    if not hard_links:
        request.getfixturevalue("no_hard_links")
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        try:
            create_file(tmp_path / "claim", b"%d" % number)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (tmp_path / "claim").read_bytes() == b"%d" % won[0]
    assert names(tmp_path) == ["claim"]


@pytest.mark.usefixtures("no_hard_links")
def test_without_hard_links_a_failed_creation_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []
    original = files.write_new

    def fail_second(path: Path, data: bytes, file_mode: int) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise DiskFullError("full")
        original(path, data, file_mode)

    monkeypatch.setattr(files, "write_new", fail_second)
    with pytest.raises(DiskFullError):
        create_file(tmp_path / "claim", b"x")
    assert names(tmp_path) == []


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "none" / "x", b"")


def test_a_full_disk_leaves_the_old_file_and_no_litter(small_disk: Path) -> None:
    path = small_disk / "progress.json"
    replace_file(path, b"old")
    with pytest.raises(DiskFullError, match="could not be written"):
        replace_file(path, b"x" * 200_000)
    with pytest.raises(DiskFullError):
        create_file(small_disk / "other", b"x" * 200_000)
    assert path.read_bytes() == b"old"
    assert names(small_disk) == ["progress.json"]


def test_a_limit_on_file_size_reads_as_a_full_disk(tmp_path: Path) -> None:
    program = (
        "import resource, sys, pathlib\n"
        "from nemo_runs.durable.files import DiskFullError, replace_file\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: replace_file(pathlib.Path(sys.argv[1]), b'x' * 2000)\n"
        "except DiskFullError as error: print(error)\n"
    )
    path = tmp_path / "x"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{path.parent}/")
    assert "File too large" in done.stdout
    assert (path.read_text(), names(tmp_path)) == ("old", ["x"])


def test_kill_9_at_any_moment_leaves_one_whole_version(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from nemo_runs.durable.files import replace_file\n"
        "path = pathlib.Path(sys.argv[1]); number = 0\n"
        "while True:\n"
        "    number += 1\n"
        "    replace_file(path, (b'%d\\n' % number) * 50_000)\n"
        "    if number == 1: print(flush=True)\n"
    )
    path = tmp_path / "state"
    for pause in (0.0, 0.004, 0.011, 0.023):
        writer = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
        with writer:
            assert writer.stdout
            writer.stdout.readline()
            time.sleep(pause)
            writer.send_signal(signal.SIGKILL)
        lines = path.read_bytes().splitlines()
        assert len(lines) == 50_000
        assert len(set(lines)) == 1


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "large"])
def test_what_can_be_read_for_ever_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "document.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            monkeypatch.chdir(tmp_path)
            listener.bind(path.name)
    else:
        with path.open("wb") as file:
            file.truncate(disk.LARGEST_DOCUMENT + 1)
    with pytest.raises(OSError, match=r"regular file|No such device|has more than"):
        files.read_document(path)
    if kind != "large":
        with pytest.raises(OSError, match=r"regular file|No such device"):
            list(files.read_lines(path))
