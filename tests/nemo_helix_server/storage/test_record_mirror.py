"""Records in the jobs' folders: complete, in order, each once, also after crashes."""

import json
import os

import pytest
from tests.helix_workplace import Workplace, shell

from nemo_helix_server.executors.fake import FakeStepExecutor
from nemo_helix_server.storage.record_mirror import RecordMirror
from nemo_runs.clock import SECOND
from nemo_runs.errors import DiskFullError

pytestmark = pytest.mark.services


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path / "data", executor=FakeStepExecutor())
    yield place
    place.close()


def lines(place, job):
    path = place.storage.paths("default", job).transitions
    return [json.loads(line) for line in path.read_text().splitlines()]


def passes(place, count=3):
    for _ in range(count):
        place.controller.run_once()


def test_every_transition_is_written_once_however_often_it_is_repeated(place):
    job = place.job(shell("true"))
    RecordMirror(place.store, place.storage).run()
    passes(place)
    RecordMirror(place.store, place.storage).run()
    (place.folder / "mirror.json").unlink()
    mirror = RecordMirror(place.store, place.storage)
    mirror.run()
    mirror.run()
    found = lines(place, job)
    assert [f"{row['origin']}>{row['to']}" for row in found if row["step_id"]] == place.history(job)
    assert len({row["seq"] for row in found}) == len(found)


@pytest.mark.parametrize("torn", [b'{"seq": 12, "wor', b"\xff\xfe", b"garbage"])
def test_a_line_that_a_crash_tore_is_set_aside(place, torn):
    job = place.job(shell("true"))
    RecordMirror(place.store, place.storage).run()
    path = place.storage.paths("default", job).transitions
    with path.open("ab") as file:
        file.write(torn)
    passes(place)
    RecordMirror(place.store, place.storage).run()
    assert [f"{row['origin']}>{row['to']}" for row in lines(place, job) if row["step_id"]] == place.history(
        job
    )


@pytest.mark.parametrize("cursor", ["", "{", "[]", '{"seq": "x"}'])
def test_a_damaged_cursor_begins_again(place, cursor):
    job = place.job(shell("true"))
    RecordMirror(place.store, place.storage).run()
    (place.folder / "mirror.json").write_text(cursor)
    RecordMirror(place.store, place.storage).run()
    assert [f"{row['origin']}>{row['to']}" for row in lines(place, job) if row["step_id"]] == place.history(
        job
    )


def test_the_records_say_what_the_store_says(place):
    job = place.job(shell("true"))
    passes(place)
    RecordMirror(place.store, place.storage).run()
    folder = place.storage.paths("default", job).folder
    step = place.step_of(job)
    assert json.loads((folder / "job.json").read_text())["name"] == place.get(job).name
    assert json.loads((folder / "steps" / "0-main.json").read_text())["task"] == step.task
    assert json.loads((folder / "tasks" / f"{step.task}.json").read_text())["name"] == step.task
    assert (
        json.loads((folder / "attempts" / "0.json").read_text())["platform_spec"]["steps"][0]["name"]
        == "main"
    )


@pytest.mark.parametrize("rebooted", [True, False])
def test_after_a_boot_what_had_not_reached_the_disk_is_written_again(place, rebooted):
    job = place.job(shell("true"))
    passes(place)
    RecordMirror(place.store, place.storage).run()
    path = place.storage.paths("default", job).transitions
    kept = path.read_bytes().splitlines(keepends=True)[:1]
    path.write_bytes(b"".join(kept))
    cursor = place.folder / "mirror.json"
    where = json.loads(cursor.read_text())
    if rebooted:
        cursor.write_text(json.dumps({**where, "boot": "another"}))
    RecordMirror(place.store, place.storage).run()
    written = [f"{row['origin']}>{row['to']}" for row in lines(place, job) if row["step_id"]]
    assert written == (place.history(job) if rebooted else place.history(job)[:1])


def test_after_a_boot_what_is_old_is_left_alone(place):
    job = place.job(shell("true"))
    RecordMirror(place.store, place.storage).run()
    path = place.storage.paths("default", job).transitions
    path.unlink()
    cursor = place.folder / "mirror.json"
    where = json.loads(cursor.read_text())
    cursor.write_text(json.dumps({**where, "boot": "another", "at": where["at"] + 2 * 3600 * SECOND}))
    RecordMirror(place.store, place.storage).run()
    assert not path.exists()


def test_records_of_a_new_database_are_written_though_an_older_one_was_further(place):
    (place.folder / "mirror.json").write_text('{"seq": 1000000}')
    mirror = RecordMirror(place.store, place.storage)
    mirror.run()
    job = place.job(shell("true"))
    mirror.run()
    assert [row["seq"] for row in lines(place, job)][:1] == [1]


@pytest.mark.parametrize("name", ["transitions.jsonl", "job.json", "attempts", "steps"])
def test_what_is_in_the_way_of_a_record_is_put_aside(place, name):
    job, other = place.job(shell("true")), place.job(shell("true"))
    folder = place.storage.paths("default", job).folder
    folder.mkdir(parents=True)
    os.mkfifo(folder / name)
    RecordMirror(place.store, place.storage).run()
    passes(place)
    RecordMirror(place.store, place.storage).run()
    for found in (job, other):
        written = [f"{row['origin']}>{row['to']}" for row in lines(place, found) if row["step_id"]]
        assert written == place.history(found)


def test_a_job_whose_directory_is_none_holds_up_no_other(place):
    job, other = place.job(shell("true")), place.job(shell("true"))
    folder = place.storage.paths("default", job).folder
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")
    RecordMirror(place.store, place.storage).run()
    assert lines(place, other)


def test_a_line_that_did_not_fit_is_written_when_there_is_room(place, monkeypatch):
    job = place.job(shell("true"))
    mirror = RecordMirror(place.store, place.storage)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
    with pytest.raises(DiskFullError):
        mirror.run()
    monkeypatch.undo()
    mirror.run()
    written = [f"{row['origin']}>{row['to']}" for row in lines(place, job) if row["step_id"]]
    assert written == place.history(job)
