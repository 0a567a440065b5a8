"""Status tells of a run's end what the next job of its chain decides on: both hear the same witness."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.chain_decision import Spent, decide

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.endings import BenchmarkState, EndCause, Ending, ended, run_end
from nemo_gym.chain.evidence import ChainState, CollectorReport, EndMarker, Evidence, Link, TimedObservation
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.chain.run_end import EndKind
from nemo_slurm.states import Meaning, read_state, table

OBSERVED = {
    Meaning.COMPLETE: JobState.SUCCEEDED,
    Meaning.CANCELLED: JobState.CANCELLED,
    Meaning.LAG: JobState.RUNNING,
}
SAME = {
    ChainState.SUCCEEDED: BenchmarkState.SUCCEEDED,
    ChainState.CANCELLED: BenchmarkState.CANCELLED,
    ChainState.STOPPED: BenchmarkState.STOPPED,
    ChainState.FAILED: BenchmarkState.FAILED,
}


def known(link: Link, word: str = "", *, cancelled: str = "") -> Evidence:
    state = read_state(word)
    seen = {}
    if state is not None:
        observed = OBSERVED.get(state.meaning, JobState.FAILED)
        seen[link.job_id] = TimedObservation(JobObservation(observed, "", word=word), at=100.0)
    return Evidence(
        gym_job_id="gym-job-20260101T000000Z-000000",
        benchmark="b",
        job_dir=Path("/run/b"),
        where="this machine",
        first_job=link.job_id,
        links=(link,),
        cancelled=cancelled,
        seen=seen,
    )


def ran(
    outcome: str = "",
    status: int = 0,
    asked: str = "none",
    *,
    collected: CollectorReport | None = None,
    full_disks: int = 0,
) -> Link:
    end = EndMarker(outcome=outcome, status=status, asked=asked, reason="") if outcome else None
    return Link(job_id="5", restart=0, started=1.0, end=end, collected=collected, full_disks=full_disks)


def report(state: str, status: int, *, hopeless: str | None = None) -> CollectorReport:
    recorded = 5 if state == "complete" else 3
    return CollectorReport(
        state=state, status=status, expected=5, recorded=recorded, new=1, hopeless=hopeless
    )


def told(link: Link, word: str = "", *, cancelled: str = "") -> Ending:
    return ended(known(link, word, cancelled=cancelled), link)


RUNS = [
    ran(outcome, status, asked, collected=collected, full_disks=full)
    for (outcome, status, asked), collected, full in itertools.product(
        [
            ("", 0, "none"),
            ("ended", 1, "none"),
            ("ended", 75, "none"),
            ("ended", 76, "none"),
            ("drained", 75, "walltime"),
            ("drained", 75, "signal"),
            ("stopped", 75, "signal"),
            ("stopped", 75, "cancel"),
            ("drained", 75, "Ada"),
            ("service_died", 1, "service_died"),
        ],
        [None, report("complete", 0), report("drained", 75), report("failed", 1, hopeless="run.x is wrong")],
        (0, 1, 10),
    )
]


@pytest.mark.parametrize("word", ["", *table(), "CANCELLED by 1000", "HIBERNATED"])
@pytest.mark.parametrize("cancelled", ["", "2026-01-01T00:00:00Z, ada"])
def test_status_and_the_next_job_hear_the_same_witness(word: str, cancelled: str) -> None:
    for link in RUNS:
        ending = told(link, word, cancelled=cancelled)
        everything = known(link, word, cancelled=cancelled)
        seen = everything.seen.get("5")
        complete = link.collected is not None and link.collected.complete
        end = run_end(everything, link, seen.observation if seen else None, complete=complete)
        decision = decide(end, Spent(retries=0, walltime=0, links_without_progress=0), Budget())
        if decision.chain is not ChainState.RUNNING:
            assert ending.state is SAME[decision.chain], (link, word, end.kind)
        elif end.kind is EndKind.UNSEEN and link.end is None:
            assert ending.state is BenchmarkState.UNKNOWN, (link, word)
        else:
            # the next job goes on, and there is none
            assert ending.state is BenchmarkState.FAILED, (link, word, end.kind)


@pytest.mark.parametrize("word", ["", "FAILED", "TIMEOUT", "NODE_FAIL"])
def test_a_drain_that_a_bare_signal_asked_for_early_is_not_the_users_code(word: str) -> None:
    ending = told(ran("drained", 75, "signal"), word)
    assert ending.cause is EndCause.INFRASTRUCTURE
    assert ending.reason == "it drained ahead of its time limit with work left, and nothing follows it"


@pytest.mark.parametrize("word", ["", "FAILED", "NODE_FAIL"])
def test_a_collector_that_may_try_nothing_again_is_heard_without_an_end_marker(word: str) -> None:
    ending = told(ran(collected=report("exhausted", 76)), word)
    assert (ending.state, ending.cause) == (BenchmarkState.FAILED, EndCause.YOUR_CODE)
    assert ending.reason == "rollouts are missing and none of them may be tried again"


@pytest.mark.parametrize("word", ["", "FAILED", "TIMEOUT"])
def test_a_cancellation_that_the_job_knew_of_outlives_its_tombstone(word: str) -> None:
    ending = told(ran("stopped", 75, "cancel"), word)
    assert (ending.state, ending.cause) == (BenchmarkState.CANCELLED, EndCause.PERSON)
    assert ending.reason == "job 5 was cancelled"
