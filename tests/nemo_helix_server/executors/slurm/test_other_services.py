"""A service whose data directory was copied from another one's, beside the same fake scheduler."""

import shutil

import pytest
from tests.nemo_helix_server.executors.slurm.scheduler_world import Place, run_of

from nemo_helix_server.executors.base import ExecutorError, NeverPossibleError, RunState
from nemo_helix_server.executors.slurm.on_cluster.holders import ServiceMark
from nemo_helix_server.storage import run_files
from nemo_runs.processes import trees
from nemo_slurm.testing import Faults

OTHERS = "belongs to another service, that of the original"


@pytest.fixture
def original(tmp_path):
    return Place(tmp_path, service=ServiceMark("a", 0, "that of the original"))


@pytest.fixture
def copy(original, tmp_path):
    """Made while a job of the original runs."""
    original.start(run_of(1))
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    service = ServiceMark("b", 0, "that of the copy")
    return Place(tmp_path, data="copy", service=service, fake=original.fake)


def queued(place):
    return [job.id for job in place.fake.jobs() if job.state == "PENDING"]


def test_a_copy_sees_that_a_job_is_the_originals_and_reads_nothing_of_it(original, copy):
    run_files.write_started(original.there(run_of(1)), trees.identify(), 6.0)
    seen = copy.executor.observe([run_of(1)])[run_of(1).token]
    assert seen.state is RunState.UNKNOWN
    assert OTHERS in seen.unseen
    assert not (copy.jobs.run_folder(run_of(1)) / run_files.STARTED).exists()


def test_a_copy_ends_no_job_of_the_original_and_it_is_over_for_the_copy(original, copy):
    copy.executor.stop(run_of(1), grace_seconds=1.0)
    assert copy.state(run_of(1)) is RunState.LOST
    assert run_files.read_claim(original.there(run_of(1))) is None
    assert queued(original) == [original.known(run_of(1)).job_id]
    assert original.state(run_of(1)) is RunState.QUEUED


def test_nor_does_it_kill_one_or_end_what_follows_it(original, copy):
    copy.executor.kill(run_of(1))
    copy.executor.end_chain(run_of(1))
    assert queued(original) == [original.known(run_of(1)).job_id]
    assert copy.executor.open_chains() == []
    assert original.executor.open_chains() == [run_of(1)]


def test_a_request_of_the_copy_reaches_no_job_of_the_original(original, copy):
    with pytest.raises(ExecutorError, match=OTHERS):
        copy.executor.request_pause(run_of(1), seq=2, by="ben", at=1.0)
    assert not (original.there(run_of(1)) / run_files.CONTROL).exists()


def test_a_start_of_the_same_job_is_refused_in_the_copy(original, copy):
    with pytest.raises(NeverPossibleError, match=OTHERS):
        copy.start(run_of(2))
    assert not original.there(run_of(2)).exists()
    assert len(queued(original)) == 1


def test_a_job_that_waits_for_a_limit_is_not_queued_by_the_copy(original, tmp_path):
    original.fake.set(Faults(starts_jobs=False, submit_limit=0))
    original.start(run_of(1))
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    copy = Place(tmp_path, data="copy", service=ServiceMark("b", 0, "b"), fake=original.fake)
    original.fake.set(Faults(starts_jobs=False))
    copy.state(run_of(1))
    assert queued(original) == []


def test_a_copy_deletes_its_own_record_of_a_job_and_leaves_the_originals_files(original, copy):
    copy.executor.storage.reclaim("default", "job-1")
    copy.executor.storage.discard("default", "job-1")
    assert original.there(run_of(1)).is_dir()
    assert not copy.jobs.run_folder(run_of(1)).exists()
    assert list(copy.executor.storage.leftovers) == []


def test_who_has_taken_over_ends_the_job_and_the_original_is_told(original, copy):
    copy.connections.service = ServiceMark("b", 1000, "that of the copy")
    copy.connections.known.clear()
    copy.executor.stop(run_of(1), grace_seconds=1.0)
    assert queued(original) == []
    assert "belongs to another service, that of the copy" in (
        original.executor.observe([run_of(1)])[run_of(1).token].unseen
    )
