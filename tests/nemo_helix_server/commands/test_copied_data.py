"""A copied data directory starts no service while its jobs may be the original's."""

import json
import subprocess

import pytest
from tests.helix_workplace import Workplace, shell
from tests.nemo_helix_server.commands.programs import JOBS, Program, nemo, training, until

from nemo_helix_server.commands.copied_data import require_original
from nemo_helix_server.commands.holder import DataDirectoryError
from nemo_helix_server.executors.fake import FakeStepExecutor
from nemo_helix_server.storage import data_origin


@pytest.fixture
def copied(tmp_path):
    """Copies a data directory and gives the copy as a service opens it."""
    opened = []

    def copy(place):
        data_origin.read(place.folder)
        subprocess.run(["cp", "-a", place.folder, tmp_path / "copy"], check=True)
        opened.append(Workplace(tmp_path / "copy", executor=FakeStepExecutor()))
        return opened[-1]

    yield copy
    for place in opened:
        place.close()


@pytest.fixture
def place(tmp_path):
    made = Workplace(tmp_path / "data", executor=FakeStepExecutor())
    yield made
    made.close()


def test_a_copy_with_a_job_under_way_is_refused_until_it_takes_over(place, copied):
    place.job(shell("sleep 9"))
    copy = copied(place)
    with pytest.raises(DataDirectoryError) as refused:
        require_original(copy.folder, copy.store, take_over=False)
    assert f"the data directory {copy.folder} was copied from {place.folder}" in str(refused.value)
    assert "start this one with --take-over, once" in str(refused.value)
    require_original(copy.folder, copy.store, take_over=True)
    require_original(copy.folder, copy.store, take_over=False)
    require_original(place.folder, place.store, take_over=False)
    assert data_origin.read(copy.folder).id != data_origin.read(place.folder).id


def test_a_copy_of_what_has_anything_on_a_cluster_is_refused_and_one_without_jobs_is_a_new_service(
    place, copied
):
    copy = copied(place)
    (copy.folder / "jobs" / "default" / "job-1" / "cluster").mkdir(parents=True)
    with pytest.raises(DataDirectoryError):
        require_original(copy.folder, copy.store, take_over=False)
    (copy.folder / "jobs" / "default" / "job-1" / "cluster").rmdir()
    require_original(copy.folder, copy.store, take_over=False)
    assert data_origin.read(copy.folder).id != data_origin.read(place.folder).id


def test_a_directory_that_was_put_back_in_its_place_says_so(place, copied):
    place.job(shell("sleep 9"))
    copy = copied(place)
    record = copy.folder / data_origin.RECORD
    record.write_text(json.dumps({**json.loads(record.read_text()), "path": str(copy.folder)}))
    with pytest.raises(DataDirectoryError, match="was put back from a copy"):
        require_original(copy.folder, copy.store, take_over=False)


@pytest.mark.e2e
@pytest.mark.slow
def test_a_service_on_a_copy_says_why_it_does_not_start(program, tmp_path):
    first = program()
    with first.client() as http:
        assert http.post(JOBS, json=training("one", "--steps", 100_000)).status_code == 201
        until(lambda: http.get(f"{JOBS}/one").json()["status"] == "active", "the job runs")
    subprocess.run(["cp", "-a", first.data_dir, tmp_path / "copy"], check=False, capture_output=True)
    second = Program(tmp_path / "copy")
    assert second.process.wait(60) == 1
    (said,) = second.stderr().splitlines()
    assert f"was copied from {first.data_dir}" in said
    # its files name the original's service, which nobody may ask in its place
    for words in (["status"], ["drain", "--yes"]):
        shown = nemo("services", *words, "--data-dir", tmp_path / "copy")
        assert (shown.returncode, "nemo services run" in shown.stdout + shown.stderr) == (1, True)
    with first.client() as http:
        assert http.get(f"{JOBS}/one").json()["status"] == "active"
    second.process.stdout.close()
