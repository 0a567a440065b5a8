"""Jobs in a row that recorded nothing new: how many, the likely cause, and both figures."""

from __future__ import annotations

import pytest
from tests.nemo_gym.orchestration.evidence_files import NOW, collected, known, link, progress, saw

from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.status.info import BenchmarkInfo, text
from nemo_gym.orchestration.status.report import BenchmarkStatus, assess, of_submissions
from nemo_gym.orchestration.status.report_text import status_text


def job(number: int, *, rows: int = 0, **values: object) -> dict[str, str]:
    """One of several jobs in a row, each with ten minutes."""
    before = str(number - 1) if number > 1 else ""
    started = NOW - 10_000 + 1000 * number
    return link(
        f"{number}.0", started=started, predecessor=before, rows=f"{rows}\n", walltime="600\n", **values
    )


def timeout(number: int):
    return saw("FAILED", word="TIMEOUT", ended_at=NOW - 10_000 + 1000 * number + 600)


def shown(*files, seen) -> tuple[BenchmarkStatus, str]:
    evidence = known(*files, seen=seen)
    return assess(evidence), status_text(of_submissions([evidence]))


def test_a_walltime_that_is_shorter_than_the_start_up_is_said_with_both_figures():
    status, said = shown(
        job(1, alive="570\n"),
        job(2, alive="570\n"),
        job(3, queued="4"),
        seen={str(number): timeout(number) for number in (1, 2, 3)} | {"4": saw("QUEUED", "Priority")},
    )
    assert (status.state, status.links_without_progress) == ("queued", 3)
    words = (
        "3 jobs in a row recorded no new rollout. Likely cause: the walltime is shorter than the start-up "
        "(the walltime is 10 min, the start-up took more than 10 min); submit it again with a longer "
        "walltime (--walltime TIME)."
    )
    assert words in status.notes
    assert words in said


def test_a_walltime_that_leaves_too_little_after_the_start_up_is_told_apart():
    drained = {"end": "drained 75 walltime\nasked to stop", "collected": collected("drained", 75, 0, new=0)}
    status, _ = shown(job(1, ready="500\n", **drained), seen={"1": timeout(1)})
    (note,) = status.notes
    assert note.startswith("1 job recorded no new rollout. Likely cause: the walltime leaves too little time")
    assert "(the walltime is 10 min, the start-up took 8 min 20 s)" in note


@pytest.mark.parametrize(
    ("files", "links"),
    [
        ([job(1), job(2)], 2),
        ([job(1), job(2, rows=3), job(3, rows=3)], 2),
        ([job(1), job(2, rows=3), job(3, rows=4)], 1),
        ([job(1, collected=collected("drained", 75, 4, new=4)), job(2, rows=4)], 1),
        ([job(1), job(2, collected=collected("drained", 75, 1, new=1))], 0),
        ([job(1), job(2), progress(4, new=1, age=8000.0 - 300)], 0),
        ([job(1), job(2, rows=4), progress(4, new=4, age=9000.0 - 300)], 1),
        ([job(1), job(2), job(3, decision="fail failed\nmax_retries\n")], 2),
        ([link("1.0")], 0),
    ],
)
def test_a_new_row_or_a_collectors_word_is_progress_and_a_job_that_only_decided_is_no_job(files, links):
    seen = {number: saw("FAILED", word="FAILED") for number in "123"}
    assert assess(known(*files, seen=seen)).links_without_progress == links


def test_a_running_job_is_not_counted_but_what_it_recorded_is():
    idle = [job(1), job(2), job(9)]
    seen = {"1": timeout(1), "2": timeout(2), "9": saw("RUNNING")}
    assert assess(known(*idle, seen=seen)).links_without_progress == 2
    one = progress(1, new=1)
    assert assess(known(*idle, one, seen=seen)).links_without_progress == 0


def test_jobs_that_failed_are_told_with_what_ended_them():
    why = "the setup lines ended with exit status 3"
    status, _ = shown(job(1), job(2, end=f"failed 3 none\n{why}"), seen={"2": saw("FAILED", word="FAILED")})
    assert any(f"2 jobs in a row recorded no new rollout. The last of them ended so: {why}" in note
               for note in status.notes)  # fmt: skip


def test_info_says_how_many_there_were():
    evidence = known(job(1), job(2), seen={"1": timeout(1), "2": timeout(2)})
    record = SubmissionRecord(
        gym_job_id=evidence.gym_job_id, gym_version="1", gym_commit=None, submitted_at="", run_dir="/runs/a",
        cluster="c", executor="slurm", submitted_by="ada", benchmarks=(),
    )  # fmt: skip
    said = text(record, [BenchmarkInfo(evidence, assess(evidence), {})])
    assert "jobs in a row without a new rollout: 2" in said
    assert "the walltime is shorter than the start-up (the walltime is 10 min" in said
