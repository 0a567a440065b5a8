"""What is seen of a benchmark in a job that runs several."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.evidence_files import known, link, saw

from nemo_gym.chain.evidence import Evidence, Resubmission
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.chain.shared_job import of_benchmark

RUNS = saw("RUNNING")
OVER = saw("FAILED", "it ended", word="TIMEOUT", ended_at=1.0)


def after(end: str | None, seen: JobObservation, **more: object) -> JobObservation:
    files = link("7.0", **({} if end is None else {"end": f"{end}\nwhy"}))
    return of_benchmark(replace(known(files), **more), "7", seen)


@pytest.mark.parametrize(
    ("end", "seen", "state", "word"),
    [
        (None, RUNS, "RUNNING", ""),
        (None, OVER, "FAILED", "TIMEOUT"),
        ("ended 0 none", RUNS, "SUCCEEDED", "COMPLETED"),
        ("failed 1 none", RUNS, "FAILED", "FAILED"),
        ("failed 1 none", OVER, "FAILED", "FAILED"),  # it had failed before the time was up
        ("ended 0 none", OVER, "SUCCEEDED", "COMPLETED"),
        ("stopped 75 signal", OVER, "FAILED", "TIMEOUT"),  # who asked, the scheduler alone knows
        ("drained 75 signal", RUNS, "FAILED", "FAILED"),
    ],
)
def test_its_own_end_counts_where_nobody_asked_for_it(
    end: str | None, seen: JobObservation, state: str, word: str
) -> None:
    found = after(end, seen)
    assert (found.state, found.word) == (JobState(state), word)


def test_a_cancelled_one_does_not_begin_in_a_job_that_goes_on() -> None:
    waiting = replace(known({}), cancelled="2027, ada, why")
    assert of_benchmark(waiting, "8", saw("QUEUED")).state is JobState.CANCELLED
    assert of_benchmark(waiting, "8", RUNS).state is JobState.CANCELLED
    assert of_benchmark(known({}), "8", saw("QUEUED")).state is JobState.QUEUED
    assert of_benchmark(waiting, "8", saw("UNKNOWN")).state is JobState.UNKNOWN


def test_jobs_of_a_resubmission_are_its_own() -> None:
    again = (Resubmission(number=1, job_id="8"),)
    links = known(link("7.0", queued="77"), link("8.0", queued="9")).links
    whole: Evidence = replace(known({}), shared_dir=Path("/runs/small"), links=links, resubmissions=again)
    folders = {job: whole.folder_of(job) for job in ("7", "77", "8", "9")}
    assert folders == {
        "7": Path("/runs/small"),
        "77": Path("/runs/small"),
        "8": whole.job_dir,
        "9": whole.job_dir,
    }
