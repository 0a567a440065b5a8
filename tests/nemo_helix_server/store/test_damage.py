"""A database that is damaged, away, replaced or in an odd place: one sentence, and nothing is lost unseen."""

import os
import sqlite3

import pytest

from nemo_helix_server.errors import StoreError, UnavailableError
from nemo_helix_server.settings import Settings
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock

pytestmark = pytest.mark.services


def store_in(folder):
    folder.mkdir(exist_ok=True)
    return JobStore(Settings(data_dir=folder, database_url=None).store_url(), MovableClock())


@pytest.fixture
def made(tmp_path):
    store = store_in(tmp_path)
    store.migrate()
    yield store
    store.close()


def garbage(file):
    file.write_bytes(b"this was never a database, and it is long enough to be looked at " * 9)


def half(file):
    with file.open("r+b") as there:
        there.truncate(9000)


def other_pages(file):
    with file.open("r+b") as there:
        size = there.seek(0, os.SEEK_END)
        there.seek(4096)
        there.write(b"\xa5" * (size - 4096))


def folder_instead(file):
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [garbage, half, other_pages, folder_instead])
def test_a_damaged_database_is_refused_with_a_sentence_that_helps(tmp_path, damage):
    first = store_in(tmp_path)
    first.migrate()
    first.close()
    damage(tmp_path / "jobs.db")
    store = store_in(tmp_path)
    with pytest.raises(StoreError) as refused:
        store.migrate()
    store.close()
    assert str(tmp_path / "jobs.db") in str(refused.value)
    assert "backup" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("replace", [False, True])
def test_nothing_is_written_to_a_database_that_was_removed(tmp_path, made, replace):
    file = tmp_path / "jobs.db"
    file.rename(tmp_path / "aside.db")
    if replace:
        file.touch()
    with pytest.raises(UnavailableError, match="removed or replaced"), made.write() as unit:
        unit.jobs.remove("x")
    with pytest.raises(UnavailableError, match="removed or replaced"), made.read() as unit:
        unit.jobs.by_id("x")
    (tmp_path / "aside.db").rename(file)
    with made.write() as unit:
        unit.jobs.remove("x")


def test_damage_that_shows_while_the_service_runs_is_no_error_of_the_request(tmp_path, made):
    made.close()
    other_pages(tmp_path / "jobs.db")
    with pytest.raises(UnavailableError, match="cannot be used"), made.read() as unit:
        unit.jobs.counts(None)


@pytest.mark.parametrize(
    "name", ["a b", "q?mode=memory", "100%25#x", "new\nline", "x\udcff", "\u00fc?\udcfe"]
)
def test_a_database_lies_in_its_folder_whatever_that_is_called(tmp_path, name):
    store = store_in(tmp_path / name)
    store.migrate()
    with store.read() as unit:
        assert unit.workspaces.find("default") is not None
    store.close()
    assert os.listdir(tmp_path) == [name]
    connection = sqlite3.connect(tmp_path / name / "jobs.db")
    assert connection.execute("SELECT count(*) FROM workspaces").fetchone() == (1,)
    connection.close()
