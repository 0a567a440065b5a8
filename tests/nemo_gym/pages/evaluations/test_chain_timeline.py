"""The bars of a chain: where each begins, how long each part is, and why a run ended."""

import pytest
from tests.nemo_gym.orchestration.evidence_files import NOW, collected, decision, known, link

from nemo_gym.orchestration.results.bill import OWNERS, Bill, LinkBill
from nemo_gym.pages.evaluations.chain_timeline import timeline


def billed(
    name: str, start: float, end: float, *, queue: float = 0, ended: bool = True, **owners: float
) -> LinkBill:
    """The bill of one run; times in seconds."""
    return LinkBill(
        name=name,
        start=round(1000 * start),
        end=round(1000 * end),
        ended=ended,
        queue=round(1000 * queue),
        owners=dict.fromkeys(OWNERS, 0) | {owner: round(1000 * length) for owner, length in owners.items()},
    )


EVIDENCE = known(
    link("1.0", started=NOW - 100, end="drained 75 walltime\nasked to stop\n"),
    link(
        "2.0",
        started=NOW - 40,
        predecessor="1",
        decision=decision("go_on", "running", "the job before drained ahead of its time limit"),
        collected=collected(),
        end="succeeded 0 none\n",
    ),
)
BILL = Bill(
    gym_job_id="gym-job-1",
    benchmark="sums",
    gpus=None,
    links=[
        billed("1.0", 10, 60, queue=10, install=5, load=5, useful=30, drained_tail=4, idle=6),
        billed("2.0", 80, 100, queue=20, load=5, useful=10, repeated=5),
    ],
)


def test_bars_lie_side_by_side_on_one_scale_and_leave_nothing_out() -> None:
    first, second = timeline(EVIDENCE, "", BILL)
    assert [(part.kind, part.left, part.width) for part in first.parts] == [
        ("queued", 0, 10),
        ("start", 10, 10),
        ("useful", 20, 30),
        ("drained", 50, 4),
        ("idle", 54, 6),
    ]
    assert [(part.kind, part.left, part.seconds) for part in second.parts] == [
        ("queued", 60, 20),
        ("start", 80, 5),
        ("useful", 85, 10),
        ("lost", 95, 5),
    ]


def test_the_cause_of_an_end_is_what_the_next_job_decided_and_of_the_last_the_state() -> None:
    first, second = timeline(EVIDENCE, "all rollouts are recorded", BILL)
    assert first.end == "drained (exit status 75): asked to stop"
    assert first.cause == "go on: the job before drained ahead of its time limit"
    assert second.cause == "all rollouts are recorded"
    assert (first.ended, second.ended) == (60, 100)


def test_before_the_bill_is_known_there_are_runs_without_bars() -> None:
    assert [(link.name, link.parts, link.ended) for link in timeline(EVIDENCE, "", None)] == [
        ("1.0", [], None),
        ("2.0", [], None),
    ]


@pytest.mark.parametrize("start", [0, 5])
def test_a_run_of_no_length_has_no_bar(start: float) -> None:
    bill = Bill(gym_job_id="", benchmark="sums", gpus=None, links=[billed("1.0", start, start)])
    assert timeline(EVIDENCE, "", bill)[0].parts == []
