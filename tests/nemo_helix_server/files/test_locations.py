"""Filesets on this machine and at an address of fsspec: the same in both."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nemo_helix_server.errors import InvalidError, StateConflictError, UnavailableError, UnknownNameError
from nemo_helix_server.files.filesets import Filesets, checked_path, chunks
from nemo_helix_server.files.locations import open_tree
from nemo_runs.clock import MovableClock

pytestmark = pytest.mark.services


@pytest.fixture(params=["local", "file", "memory"])
def filesets(request: pytest.FixtureRequest, tmp_path: Path) -> Filesets:
    roots = {
        "local": str(tmp_path / "root"),
        "file": f"file://{tmp_path / 'root'}",
        "memory": f"memory://{tmp_path.name}",
    }
    root = roots[request.param]
    return Filesets(open_tree(root), MovableClock(), root)


def put(made: Filesets, path: str, content: bytes, name: str = "sums") -> None:
    upload = made.upload("default", name, path)
    upload.write(content)
    upload.commit()


def test_a_fileset_is_made_filled_read_and_removed(filesets: Filesets) -> None:
    filesets.create("ann", "default", "sums", "small ones")
    put(filesets, "train.jsonl", b"one\n")
    put(filesets, "deep/er/x.bin", b"\0" * 1000)
    put(filesets, "train.jsonl", b"two!\n")
    assert filesets.files("default", "sums") == [
        {"path": "deep/er/x.bin", "size": 1000},
        {"path": "train.jsonl", "size": 5},
    ]
    found = filesets.get("default", "sums")
    assert (found["files"], found["size_bytes"], found["description"]) == (2, 1005, "small ones")
    file, size = filesets.open("default", "sums", "train.jsonl")
    assert (b"".join(chunks(file)), size) == (b"two!\n", 5)
    filesets.delete_file("default", "sums", "train.jsonl")
    assert filesets.paths("default", "sums") == ("deep/er/x.bin",)
    assert [one["name"] for one in filesets.all("default")] == ["sums"]
    filesets.delete("default", "sums")
    assert filesets.all("default") == []
    with pytest.raises(UnknownNameError, match="there is no fileset 'sums'"):
        filesets.files("default", "sums")


def test_an_upload_that_ends_early_leaves_what_was_there(filesets: Filesets) -> None:
    filesets.create("ann", "default", "sums", None)
    put(filesets, "a.txt", b"old")
    upload = filesets.upload("default", "sums", "a.txt")
    upload.write(b"half of")
    assert filesets.read("default", "sums", "a.txt", 100) == b"old"
    upload.abort()
    assert filesets.read("default", "sums", "a.txt", 100) == b"old"
    assert filesets.paths("default", "sums") == ("a.txt",)


def test_names_are_taken_once_and_those_of_jobs_never(filesets: Filesets) -> None:
    filesets.create("ann", "default", "sums", None)
    with pytest.raises(StateConflictError, match="there is a fileset 'sums' already"):
        filesets.create("ann", "default", "sums", None)
    with pytest.raises(InvalidError, match="job-fileset-"):
        filesets.create("ann", "default", "job-fileset-x", None)
    filesets.create("ann", "lab", "sums", None)
    assert filesets.paths("lab", "sums") == ()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "./a",
        "a/",
        "a\0b",
        "a\\b",
        "a\nb",
        "a\x1b[31mb",
        "x" * 201,
        "x/" * 600 + "x",
    ],
)
def test_no_path_leads_out(path: str) -> None:
    with pytest.raises(InvalidError, match="is not a path inside a fileset"):
        checked_path(path)


def test_what_is_not_there_is_said(filesets: Filesets) -> None:
    filesets.create("ann", "default", "sums", None)
    put(filesets, "deep/x", b"1")
    for path in ("none", "deep"):
        with pytest.raises(UnknownNameError, match=f"has no file '{path}'"):
            filesets.open("default", "sums", path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    made = Filesets(open_tree(tmp_path / "root"), MovableClock(), str(tmp_path / "root"))
    made.create("ann", "default", "sums", None)
    put(made, "real.txt", b"1")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "value").write_text("hidden")
    folder = tmp_path / "root" / "default" / "sums"
    os.symlink(secret / "value", folder / "link.txt")
    os.symlink(secret, folder / "folder")
    assert made.paths("default", "sums") == ("real.txt",)
    for path in ("link.txt", "folder/value"):
        with pytest.raises((UnknownNameError, UnavailableError)):
            made.open("default", "sums", path)


def test_an_address_that_nobody_knows_is_one_sentence() -> None:
    with pytest.raises(UnavailableError, match=r"the filesets at nowhere://x cannot be reached"):
        open_tree("nowhere://x")


@pytest.mark.parametrize("where", ["sums/sub", ".parts", "sums"])
def test_a_link_that_somebody_put_there_leads_nowhere(tmp_path: Path, where: str) -> None:
    made = Filesets(open_tree(tmp_path / "root"), MovableClock(), str(tmp_path / "root"))
    made.create("ann", "default", "sums", None)
    elsewhere = tmp_path / "secrets"
    elsewhere.mkdir()
    (elsewhere / "hub").write_text("kept")
    link = tmp_path / "root" / "default" / where
    if link.is_dir():
        link.rename(tmp_path / "aside")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(NotADirectoryError):
        put(made, "sub/hub", b"stolen")
    with pytest.raises((NotADirectoryError, UnknownNameError)):
        made.delete_file("default", "sums", "sub/hub")
    assert [path.name for path in elsewhere.iterdir()] == ["hub"]
    assert (elsewhere / "hub").read_text() == "kept"


@pytest.mark.parametrize("read", ["open", "list", "remove"])
def test_a_link_that_comes_between_two_looks_leads_nowhere(tmp_path: Path, read: str) -> None:
    """A step exchanges a folder and a link all the time."""
    made = Filesets(open_tree(tmp_path / "root"), MovableClock(), str(tmp_path / "root"))
    made.create("ann", "default", "sums", None)
    put(made, "sub/value", b"own")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "value").write_text("hidden")
    (elsewhere / "also").write_text("hidden")
    sub, aside, link = (tmp_path / "root" / "default" / "sums" / name for name in ("sub", "aside", "link"))
    link.symlink_to(elsewhere)
    over = threading.Event()

    def exchange() -> None:
        while not over.is_set():
            for one, other in ((sub, aside), (link, sub), (sub, link), (aside, sub)):
                one.rename(other)

    thread = threading.Thread(target=exchange)
    thread.start()
    seen: set[bytes | str] = set()
    try:
        for _ in range(3000):
            try:
                if read == "open":
                    with made.open("default", "sums", "sub/value")[0] as file:
                        seen.add(file.read())
                elif read == "list":
                    seen |= {path for path in made.paths("default", "sums") if "also" in path}
                else:
                    made.tree.remove("default/sums/sub/also")
            except (UnknownNameError, UnavailableError):
                pass
    finally:
        over.set()
        thread.join()
    assert not seen & {b"hidden", "sub/also", "link/also"}
    assert sorted(path.name for path in elsewhere.iterdir()) == ["also", "value"]


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"[]",
        b'{"name": "sums", "workspace": "default", "created_at": 5}',
        b'{"name": "sums", "workspace": "other", "created_at": "2026-01-01T00:00:00Z"}',
        b'{"name": "sums", "workspace": "default", "created_at": "2026-01-01", "description": "\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_a_record_that_a_step_wrote_is_none(tmp_path: Path, content: bytes) -> None:
    made = Filesets(open_tree(tmp_path / "root"), MovableClock(), str(tmp_path / "root"))
    made.create("ann", "default", "other", None)
    (tmp_path / "root" / "default" / ".records" / "sums.json").write_bytes(content)
    assert [one["name"] for one in made.all("default")] == ["other"]
    with pytest.raises(UnknownNameError):
        made.get("default", "sums")


def test_a_name_that_is_no_text_can_be_shown(tmp_path: Path) -> None:
    made = Filesets(open_tree(tmp_path / "root"), MovableClock(), str(tmp_path / "root"))
    made.create("ann", "default", "sums", None)
    put(made, "a", b"1")
    (tmp_path / "root" / "default" / "sums" / os.fsdecode(b"b\xff")).write_bytes(b"1")
    json.dumps(made.files("default", "sums"), ensure_ascii=False).encode()


def test_of_many_who_make_one_at_once_one_has_made_it(filesets: Filesets) -> None:
    def make(who: int) -> str | None:
        try:
            return str(filesets.create(f"user-{who}", "default", "sums", None)["created_by"])
        except StateConflictError:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [name for name in pool.map(make, range(8)) if name]
    assert made == [filesets.get("default", "sums")["created_by"]]


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    made = Filesets(open_tree(tmp_path / "root"), MovableClock(), str(tmp_path / "root"))
    made.create("ann", "default", "sums", None)
    put(made, "a/b.txt", b"x")
    assert (tmp_path / "disk" / "default" / "sums" / "a" / "b.txt").read_bytes() == b"x"
