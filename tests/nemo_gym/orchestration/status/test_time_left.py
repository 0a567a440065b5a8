"""The time that is left over all jobs that a chain still needs."""

import pytest
from tests.nemo_gym.orchestration.evidence_files import NOW, known, link, progress, saw

from nemo_gym.orchestration.status.report import assess, of_submissions
from nemo_gym.orchestration.status.report_text import status_text
from nemo_gym.orchestration.status.time_left import time_left

HOUR = 3600
LIMIT = {"walltime": f"{4 * HOUR}\n", "ready": "600\n"}


def working(seconds: float) -> dict[str, str]:
    """A collector that needs so much longer at its rate."""
    return progress(age=0.0, eta_s=seconds)


def test_what_fits_into_the_present_job_needs_no_other():
    found = time_left(known(link("1.0", started=NOW - HOUR, **LIMIT), working(2 * HOUR)), running=True)
    assert (found.jobs, found.total, found.how) == (0, 2 * HOUR, "")


def test_what_does_not_fit_takes_starts_and_the_waits_that_were_seen():
    first = link("1.0", started=NOW - 6 * HOUR, end="drained 75 walltime\n", alive=f"{4 * HOUR}\n", **LIMIT)
    second = link("2.0", started=NOW - HOUR, **LIMIT)
    evidence = known(first, second, working(10 * HOUR), seen={"2": saw("RUNNING")})
    found = time_left(evidence, running=True)
    # 3 h fit here; the other 7 h take two jobs of 4 h with 10 min to start; the second waited for an hour
    assert (found.jobs, found.waiting, found.startup) == (2, HOUR, 600)
    assert found.total == 10 * HOUR + 2 * (600 + HOUR)
    said = "10 h of work in 2 more jobs, 10 min to start each, 1 h waiting before each, as so far"
    assert found.how == said
    status = assess(evidence)
    assert (status.left_s, status.eta_s) == (found.total, 10 * HOUR)
    assert f"  left: {said}" in status_text(of_submissions([evidence]))


def test_a_wait_that_nobody_has_seen_yet_is_named():
    found = time_left(known(link("1.0", started=NOW - HOUR, **LIMIT), working(5 * HOUR)), running=True)
    assert (found.jobs, found.total) == (1, 5 * HOUR + 600)
    assert found.how.endswith("waiting before each is not known yet")


def test_a_chain_that_waits_counts_its_work_at_the_last_rate():
    first = link("1.0", started=NOW - 5 * HOUR, end="drained 75 walltime\n", alive=f"{4 * HOUR}\n", **LIMIT)
    stopped = progress(2, state="drained", age=HOUR, rollouts_per_s=8 / (5 * HOUR))
    found = time_left(known(first, stopped, seen={"2": saw("QUEUED")}), running=False)
    assert (found.work, found.jobs) == (pytest.approx(5 * HOUR), 1)  # one waits already, and one more


@pytest.mark.parametrize(
    "files",
    [
        (),
        (progress(10, eta_s=0.0),),
        (progress(eta_s=None, rollouts_per_s=None),),
        (link("1.0", walltime="1\n"), working(1e9)),
    ],
)
def test_where_nothing_sensible_can_be_said_there_is_no_time(files):
    assert time_left(known(*files), running=True) is None


def test_a_job_that_only_starts_does_not_count_as_useful_at_all():
    slow = {"walltime": "3600\n", "ready": "3600\n"}
    found = time_left(known(link("1.0", started=NOW - HOUR, **slow), working(HOUR)), running=True)
    assert found.jobs == 10


def test_without_a_time_limit_there_is_one_job():
    found = time_left(known(link("1.0"), working(100 * HOUR)), running=True)
    assert (found.jobs, found.total) == (0, 100 * HOUR)
