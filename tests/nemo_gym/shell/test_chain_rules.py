"""Whether a chain goes on: the table of the source page, the order of the witnesses, and the budgets."""

from __future__ import annotations

import itertools

import pytest
from tests.chain_decision import ChainDecision, Spent, decide, look_again

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.evidence import ChainAction, ChainState
from nemo_gym.chain.run_end import Marker, Requester, RunEnd
from nemo_slurm.states import read_state, table

FRESH = Spent(retries=0, walltime=0, links_without_progress=0)
DRAINED = Marker(complete=False, exit_status=75, asked=Requester.EARLY)
COMPLETE = Marker(complete=True, exit_status=0, asked=Requester.NOBODY)
FAILED = Marker(complete=False, exit_status=1, asked=Requester.NOBODY)


def after(
    state: str = "",
    marker: Marker | None = None,
    *,
    spent: Spent = FRESH,
    budget: Budget | None = None,
    **facts: bool,
) -> ChainDecision:
    predecessor = RunEnd(marker=marker, scheduler=read_state(state), **facts)
    return decide(predecessor, spent, budget or Budget())


def short(decision: ChainDecision) -> tuple[str, str, bool, int]:
    return decision.action.value, decision.chain.value, decision.counts_retry, decision.exit_status


def test_the_first_job_starts() -> None:
    assert short(decide(None, FRESH, Budget())) == ("go_on", "running", False, 0)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", ("go_on", "running", False, 0)),
        ("COMPLETED", ("stop", "failed", False, 0)),
        ("CANCELLED", ("stop", "cancelled", False, 0)),
        ("CANCELLED by 1000", ("stop", "cancelled", False, 0)),
        ("CANCELLED+", ("stop", "cancelled", False, 0)),
        ("TIMEOUT", ("go_on", "running", False, 0)),
        ("PREEMPTED", ("go_on", "running", False, 0)),
        ("NODE_FAIL", ("go_on", "running", False, 0)),
        ("FAILED", ("go_on", "running", True, 0)),
        ("OUT_OF_MEMORY", ("go_on", "running", True, 0)),
        ("OUT_OF_ME+", ("go_on", "running", True, 0)),
        ("BOOT_FAIL", ("go_on", "running", True, 0)),
        ("DEADLINE", ("go_on", "running", True, 0)),
        ("HIBERNATED", ("go_on", "running", True, 0)),
        ("PENDING", ("go_on", "running", False, 0)),
        ("RUNNING", ("go_on", "running", False, 0)),
        ("COMPLETING", ("go_on", "running", False, 0)),
    ],
)
def test_without_a_marker_the_table_of_the_page_holds(
    state: str, expected: tuple[str, str, bool, int]
) -> None:
    assert short(after(state)) == expected


def test_who_cancelled_is_said() -> None:
    assert after("CANCELLED by 1000").reason == "the job before was cancelled by user 1000"


def test_retries_are_counted_until_they_are_used_up() -> None:
    budget = Budget(max_retries=3)
    runs = [
        after("FAILED", spent=Spent(retries=n, walltime=0, links_without_progress=0), budget=budget)
        for n in range(5)
    ]
    assert [run.action for run in runs] == [ChainAction.GO_ON] * 3 + [ChainAction.FAIL] * 2
    assert [run.counts_retry for run in runs] == [True] * 3 + [False] * 2, (
        "what is not granted is not a retry"
    )
    assert runs[3].exit_status == 1
    assert "max_retries (3)" in runs[3].reason
    assert "FAILED" in runs[3].reason


def test_no_retry_may_be_allowed() -> None:
    assert after("FAILED", budget=Budget(max_retries=0)).action is ChainAction.FAIL
    assert after("TIMEOUT", budget=Budget(max_retries=0)).action is ChainAction.GO_ON


@pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "NODE_FAIL"])
def test_the_walltime_cap_stops_a_chain_and_is_no_failure(state: str) -> None:
    budget = Budget(max_walltime=7200)

    def used(seconds: int) -> Spent:
        return Spent(retries=0, walltime=seconds, links_without_progress=0)

    assert after(state, spent=used(7199), budget=budget).action is ChainAction.GO_ON
    stopped = after(state, spent=used(7200), budget=budget)
    assert short(stopped) == ("stop", "stopped", False, 0)
    assert f"the job before ended as {state} (" in stopped.reason
    assert stopped.reason.endswith(", and 02:00:00 of walltime are used (max_walltime is 02:00:00)")


@pytest.mark.parametrize(
    ("state", "expected"),
    [("FAILED", ChainAction.GO_ON), ("", ChainAction.GO_ON), ("RUNNING", ChainAction.GO_ON)],
)
def test_the_walltime_cap_is_not_looked_at_after_other_ends(state: str, expected: ChainAction) -> None:
    spent = Spent(retries=0, walltime=10**6, links_without_progress=0)
    assert after(state, spent=spent, budget=Budget(max_walltime=60)).action is expected


def test_the_walltime_cap_holds_after_a_drain_ahead_of_a_time_limit() -> None:
    spent = Spent(retries=0, walltime=100, links_without_progress=0)
    for state in ("", "FAILED", "TIMEOUT"):
        assert after(state, DRAINED, spent=spent, budget=Budget(max_walltime=100)).chain is ChainState.STOPPED


@pytest.mark.parametrize("state", ["", *table()])
def test_proven_completeness_outranks_everything(state: str) -> None:
    for cancelled in (False, True):
        decision = after(state, COMPLETE, cancelled_by_us=cancelled)
        assert short(decision) == ("stop", "succeeded", False, 0)


def test_an_exit_status_of_zero_proves_nothing() -> None:
    liar = Marker(complete=False, exit_status=0, asked=Requester.NOBODY)
    assert after("FAILED", liar).counts_retry
    assert after("TIMEOUT", liar).action is ChainAction.GO_ON


@pytest.mark.parametrize("state", ["", *table()])
def test_our_own_cancellation_stops_whatever_the_scheduler_says(state: str) -> None:
    for marker in (None, DRAINED, FAILED):
        assert after(state, marker, cancelled_by_us=True).chain is ChainState.CANCELLED


def test_a_drain_that_scancel_caused_does_not_go_on() -> None:
    by_term = Marker(complete=False, exit_status=75, asked=Requester.TERM)
    for marker in (by_term, DRAINED):
        assert after("CANCELLED by 0", marker).chain is ChainState.CANCELLED
    assert (
        after("", Marker(complete=False, exit_status=75, asked=Requester.CANCEL)).chain
        is ChainState.CANCELLED
    )


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "COMPLETED", "", "HIBERNATED"])
def test_a_drain_that_our_early_signal_asked_for_goes_on_uncounted(state: str) -> None:
    assert short(after(state, DRAINED)) == ("go_on", "running", False, 0)


def test_an_incomplete_end_that_nobody_asked_for_counts_as_the_scheduler_says() -> None:
    incomplete = Marker(complete=False, exit_status=75, asked=Requester.NOBODY)
    assert after("FAILED", incomplete).counts_retry
    assert not after("TIMEOUT", Marker(complete=False, exit_status=75, asked=Requester.TERM)).counts_retry


def test_nothing_left_to_retry_and_hopeless_failures_end_the_chain() -> None:
    exhausted = Marker(complete=False, exit_status=76, asked=Requester.NOBODY)
    assert short(after("FAILED", exhausted)) == ("fail", "failed", False, 1)
    hopeless = Marker(
        complete=False, exit_status=1, asked=Requester.NOBODY, hopeless="benchmark.verifier is unknown"
    )
    decision = after("FAILED", hopeless)
    assert short(decision) == ("fail", "failed", False, 1)
    assert "benchmark.verifier is unknown" in decision.reason


@pytest.mark.parametrize("state", ["TIMEOUT", "FAILED", "", "RUNNING", "PREEMPTED"])
def test_a_chain_without_progress_burns_out(state: str) -> None:
    def barren(links: int, limit: int | None = 5) -> ChainDecision:
        spent = Spent(retries=0, walltime=0, links_without_progress=links)
        return after(state, spent=spent, budget=Budget(max_links_without_progress=limit))

    assert barren(4).action is ChainAction.GO_ON
    assert short(barren(5)) == ("fail", "failed", False, 1)
    assert "max_links_without_progress" in barren(5).reason
    assert barren(10**6, None).action is ChainAction.GO_ON


@pytest.mark.parametrize("state", ["RUNNING", "PREEMPTED", "COMPLETED", "CANCELLED", "FAILED"])
def test_a_second_run_of_one_job_goes_on_uncounted_whatever_its_own_state_reads(state: str) -> None:
    assert short(after(state, same_job=True)) == ("go_on", "running", False, 0)
    assert after(state, same_job=True, cancelled_by_us=True).chain is ChainState.CANCELLED


def test_a_state_is_looked_up_again_for_a_minute() -> None:
    def looks(state: str, number: int, marker: Marker | None = None, **facts: bool) -> bool:
        return look_again(RunEnd(marker=marker, scheduler=read_state(state), **facts), looks=number)

    assert looks("", 0)
    assert looks("RUNNING", 5)
    assert looks("", 1, DRAINED)  # it may yet turn out to be scancel
    assert not looks("", 6)
    assert not looks("TIMEOUT", 0)
    assert not looks("", 0, COMPLETE)
    assert not looks("", 0, cancelled_by_us=True)
    assert not looks("RUNNING", 0, same_job=True)


@pytest.mark.parametrize(
    ("outcome", "who", "asked"),
    [
        ("ended", "none", Requester.NOBODY),
        ("service_died", "service_died", Requester.NOBODY),
        ("drained", "walltime", Requester.EARLY),
        ("drained", "signal", Requester.EARLY),
        ("stopped", "walltime", Requester.EARLY),
        ("stopped", "signal", Requester.TERM),
        ("stopped", "cancel", Requester.CANCEL),
        ("drained", "cancel", Requester.CANCEL),
    ],
)
def test_a_marker_says_who_asked(outcome: str, who: str, asked: Requester) -> None:
    assert Requester.of(outcome, who) is asked


def test_no_combination_of_witnesses_breaks_the_rules() -> None:
    statuses = (0, 1, 75, 76, 137)
    markers = [None] + [
        Marker(complete=complete, exit_status=status, asked=asked)
        for complete, status, asked in itertools.product((False, True), statuses, Requester)
    ]
    states = ["", "HIBERNATED", *table()]
    for marker, state, ours, same in itertools.product(markers, states, (False, True), (False, True)):
        decision = after(state, marker, cancelled_by_us=ours, same_job=same)
        assert decision.reason
        assert (decision.action is ChainAction.GO_ON) == (decision.chain is ChainState.RUNNING)
        assert (decision.exit_status == 1) == (decision.action is ChainAction.FAIL)
        if marker is None or not marker.complete:
            assert decision.chain is not ChainState.SUCCEEDED
            if ours:
                assert decision.chain is ChainState.CANCELLED
        if decision.counts_retry:
            assert state not in {"", "TIMEOUT", "PREEMPTED", "NODE_FAIL"}


@pytest.mark.parametrize("state", ["", "FAILED", "TIMEOUT", "HIBERNATED"])
@pytest.mark.parametrize("status", [1, 75])
def test_a_full_disk_counts_no_retry_and_ends_the_chain_after_ten_in_a_row(state: str, status: int) -> None:
    def full(number: int) -> ChainDecision:
        marker = Marker(complete=False, exit_status=status, asked=Requester.NOBODY, full_disks=number)
        spent = Spent(retries=3, walltime=0, links_without_progress=0)
        return after(state, marker, spent=spent, budget=Budget(max_links_without_progress=None))

    assert {short(full(number)) for number in range(1, 10)} == {("go_on", "running", False, 0)}
    assert short(full(10)) == ("fail", "failed", False, 1)
    assert full(10).reason.startswith("the disk stayed full in 10 jobs in a row; free disk space")


def test_the_walltime_cap_is_looked_at_after_a_full_disk() -> None:
    marker = Marker(complete=False, exit_status=1, asked=Requester.NOBODY, full_disks=1)
    spent = Spent(retries=0, walltime=60, links_without_progress=0)
    assert after("FAILED", marker, spent=spent, budget=Budget(max_walltime=60)).chain is ChainState.STOPPED


@pytest.mark.parametrize("failures", range(8))
def test_max_retries_grants_exactly_what_it_says_and_nothing_else_ends_a_chain(failures: int) -> None:
    """Every job fails at once and records nothing: the first job and ``max_retries`` more run."""
    budget, ran = Budget(max_retries=failures), 1
    while True:
        spent = Spent(retries=ran - 1, walltime=0, links_without_progress=ran)
        decision = after("FAILED", spent=spent, budget=budget)
        if decision.action is not ChainAction.GO_ON:
            break
        ran += 1
    assert ran == failures + 1
    assert f"max_retries ({failures}) are used up" in decision.reason


@pytest.mark.parametrize("state", ["PREEMPTED", "TIMEOUT", "NODE_FAIL", "RUNNING", ""])
@pytest.mark.parametrize("marker", [None, DRAINED])
def test_ends_by_the_scheduler_never_end_a_chain_by_themselves(state: str, marker: Marker | None) -> None:
    spent = Spent(retries=3, walltime=10**9, links_without_progress=10**6)
    assert short(after(state, marker, spent=spent)) == ("go_on", "running", False, 0)


@pytest.mark.parametrize("state", ["PREEMPTED", "FAILED", ""])
def test_a_chain_whose_jobs_refuse_what_is_recorded_ends_at_once_with_that_cause(state: str) -> None:
    def met(rows: int, *, resumes: bool = False) -> ChainDecision:
        spent = Spent(retries=0, walltime=0, links_without_progress=0, rows=rows)
        return after(state, spent=spent, budget=Budget(resumes=resumes))

    assert met(0).action is ChainAction.GO_ON
    assert met(1, resumes=True).action is ChainAction.GO_ON
    assert short(met(1)) == ("fail", "failed", False, 1)
    assert "resume_from_cache is false, and rollouts are recorded" in met(1).reason


@pytest.mark.parametrize("state", ["OUT_OF_MEMORY", "TIMEOUT", "HIBERNATED", ""])
def test_at_every_cap_the_cause_of_the_last_end_is_told_too(state: str) -> None:
    spent = Spent(retries=3, walltime=7200, links_without_progress=5, rows=1)
    cause = after(state).reason
    caps = [
        Budget(max_retries=3, max_walltime=7200),
        Budget(max_links_without_progress=5, max_retries=9),
        Budget(resumes=False),
    ]
    ended = [after(state, spent=spent, budget=cap) for cap in caps]
    for decision in ended[1:] if state == "" else ended:
        assert decision.action is not ChainAction.GO_ON
        assert decision.reason.startswith(f"{cause}, and ")


def test_another_than_the_owner_who_cancelled_is_named_as_such_and_the_chain_stops_all_the_same() -> None:
    def said(author: int, owner: int | None = 1000) -> str:
        decision = after(f"CANCELLED by {author}", owner=owner)
        assert short(decision) == ("stop", "cancelled", False, 0)
        return decision.reason.removeprefix("the job before was cancelled by ")

    assert said(1000) == "user 1000"
    assert said(0) == "user 0 (an administrator, or Slurm itself)"
    assert said(7) == "user 7 (not its owner, user 1000)"
    assert said(7, None) == "user 7"
    assert said(0, 0) == "user 0"
