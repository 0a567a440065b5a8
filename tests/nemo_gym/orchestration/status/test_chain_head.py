"""A chain is as its newest job is."""

import pytest

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.status import chain_head


@pytest.fixture
def job_dir(tmp_path):
    """The folder of one benchmark, with a link that a test adds to."""
    return tmp_path


def link(job_dir, name, **values):
    folder = job_dir / "links" / name
    folder.mkdir(parents=True, exist_ok=True)
    for key, text in values.items():
        (folder / key).write_text(f"{text}\n")


def state(job_dir, **states):
    """The state of the chain that began with job 1 when its jobs are in these states."""
    cluster = FakeQueue(jobs={name[1:]: JobObservation(JobState(text), "") for name, text in states.items()})
    return chain_head.observe(FakeJobExecutor(cluster), [JobRef("1", job_dir)])["1"].state.value


def test_a_job_without_a_folder_here_stands_for_itself(job_dir):
    assert state(job_dir / "elsewhere", _1="RUNNING") == "RUNNING"


def test_a_chain_is_as_the_job_that_started_last(job_dir):
    link(job_dir, "1.0", started=10, queued="2;main")
    assert state(job_dir, _1="RUNNING", _2="QUEUED") == "RUNNING"
    link(job_dir, "2.0", started=10, queued="11")
    link(job_dir, "2.1", started=15, queued="11")
    assert state(job_dir, _1="FAILED", _2="RUNNING", _11="QUEUED") == "RUNNING"
    link(job_dir, "11.0", started=15)
    assert state(job_dir, _1="FAILED", _2="FAILED", _11="SUCCEEDED") == "SUCCEEDED"


def test_between_two_jobs_a_chain_waits_and_one_whose_successor_was_dropped_has_ended(job_dir):
    link(job_dir, "1.0", started=10, queued="2")
    assert state(job_dir, _1="FAILED", _2="QUEUED") == "QUEUED"
    assert state(job_dir, _1="SUCCEEDED", _2="CANCELLED") == "SUCCEEDED"
    assert state(job_dir, _1="FAILED", _2="CANCELLED") == "FAILED"


@pytest.mark.parametrize(
    ("end", "job", "its"),
    [
        ("ended 0 none\n", "RUNNING", "SUCCEEDED"),
        ("ended 3 none\nthe driver ended with exit status 3: café", "RUNNING", "FAILED"),
        ("stopped 75 cancel\nasked to stop (cancel)", "RUNNING", "CANCELLED"),
        ("ended 0 cancel\n", "RUNNING", "SUCCEEDED"),
        ("drained 75 walltime\n", "FAILED", "FAILED"),
        ("", "RUNNING", "RUNNING"),
    ],
)
def test_a_benchmark_of_a_shared_job_has_its_own_end(job_dir, end, job, its):
    link(job_dir, "1.0", started=10, end=end)
    seen = chain_head.of_benchmark(job_dir, JobObservation(JobState(job), ""))
    assert seen.state.value == its
    assert seen.reason == (" ".join(end.partition("\n")[2].split()) if job != "FAILED" else "")


def test_a_benchmark_that_is_to_go_on_is_as_its_job(job_dir):
    link(job_dir, "1.0", started=10, end="ended 3 none", queued="2")
    assert chain_head.of_benchmark(job_dir, JobObservation(JobState.RUNNING, "")).state is JobState.RUNNING
