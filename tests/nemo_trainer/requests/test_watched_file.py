"""A file that is read again only when it has changed."""

import json
import os

import pytest

from nemo_trainer.requests.watched_file import WatchedFile


def read(path):
    """What the file says; `None` where its text breaks off."""
    try:
        return json.loads(path.read_text())
    except ValueError:
        return None


@pytest.fixture
def file(tmp_path):
    return tmp_path / "said.json"


def test_what_is_there_is_read_once_and_again_when_it_is_replaced(file):
    watched = WatchedFile(file)
    assert watched.look(read) is None
    file.write_text("[1]")
    assert watched.look(read) == [1]
    assert watched.look(read) is None
    new = file.with_name("new")
    new.write_text("[2]")
    os.replace(new, file)
    assert watched.look(read) == [2]


def test_a_torn_file_is_read_at_the_next_look_too(file):
    watched = WatchedFile(file)
    file.write_text("[1")
    before = file.stat()
    assert watched.look(read) is None
    file.write_text("[]")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watched.look(read) == []


def test_a_file_that_looks_the_same_is_read_where_that_is_asked_for(file):
    watched = WatchedFile(file)
    file.write_text("[1]")
    before = file.stat()
    assert watched.look(read) == [1]
    file.write_text("[2]")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watched.look(read) is None
    assert watched.look(read, always=True) == [2]


def test_no_file_says_nothing():
    assert WatchedFile(None).look(read) is None
