"""What controller and accounting say, made one."""

from __future__ import annotations

import dataclasses

import pytest

from nemo_slurm.observing import Witness, has_ended, observed
from nemo_slurm.records import AccountingRun, QueueRow, SlurmJob
from nemo_slurm.states import read_state, table

JOB = SlurmJob("7", submitted_at=1_000_000.0)


def row(state: str, **changes: object) -> QueueRow:
    found = read_state(state)
    assert found is not None
    base = QueueRow(
        "7", found, 0, 0, 0, False, "None", 1_000_000.0, 1_000_010.0, 1_000_100.0, "", "main", "n", "t"
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def run(state: str, **changes: object) -> AccountingRun:
    found = read_state(state)
    assert found is not None
    base = AccountingRun("7", found, 0, 0, 90, 1_000_000.0, 1_000_010.0, 1_000_100.0, 1, "n", "t")
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_the_controller_is_believed_before_accounting() -> None:
    seen = observed(JOB, [row("RUNNING")], [run("COMPLETED")], asked=True)
    assert (seen.state and seen.state.name, seen.settled, seen.exit_status) == ("RUNNING", False, None)


def test_a_stale_record_does_not_undo_an_end_that_the_controller_tells() -> None:
    seen = observed(JOB, [row("FAILED", exit_status=3)], [run("RUNNING")], asked=True)
    assert (seen.state and seen.state.name, seen.settled, seen.exit_status) == ("FAILED", True, 3)


@pytest.mark.parametrize("stale", ["RUNNING", "PENDING", "COMPLETING"])
def test_a_stale_record_of_a_job_that_the_controller_forgot_says_nothing(stale: str) -> None:
    seen = observed(JOB, [], [run(stale)], asked=True)
    assert (seen.state, seen.settled, seen.source) == (None, False, Witness.NOBODY)


@pytest.mark.parametrize("rows", [[], None])
def test_an_end_without_its_moment_is_half_written_and_settles_nothing(rows: list[QueueRow] | None) -> None:
    half = run("FAILED", ended_at=None)
    seen = observed(JOB, rows, [half], asked=True)
    assert (seen.state, seen.settled, seen.exit_status, seen.source) == (None, False, None, Witness.NOBODY)
    seen = observed(JOB, rows, [half, run("FAILED", exit_status=7)], asked=True)
    assert (seen.state and seen.state.name, seen.settled, seen.exit_status) == ("FAILED", True, 7)


def test_an_end_in_accounting_counts_once_the_controller_does_not_hold_the_job() -> None:
    seen = observed(JOB, [], [run("TIMEOUT", signal=15)], asked=True)
    assert (seen.state and seen.state.name, seen.settled, seen.signal) == ("TIMEOUT", True, 15)


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL"])
def test_an_end_after_which_the_job_may_come_back_settles_nothing(state: str) -> None:
    assert not observed(JOB, [row(state, requeues=True)], [], asked=True).settled
    assert observed(JOB, [row(state, requeues=False)], [], asked=True).settled
    assert not observed(JOB, None, [run(state)], asked=True).settled
    assert observed(JOB, [], [run(state)], asked=True).settled


def test_while_the_controller_is_away_a_written_end_is_an_end_and_nothing_else_is() -> None:
    assert observed(JOB, None, [run("COMPLETED")], asked=True).settled
    running = observed(JOB, None, [run("RUNNING")], asked=True)
    assert (running.state and running.state.name, running.settled) == ("RUNNING", False)
    nothing = observed(JOB, None, [], asked=True)
    assert (nothing.state, nothing.settled) == (None, False)


def test_an_older_job_with_the_same_number_is_not_this_job() -> None:
    old = run("COMPLETED", submitted_at=JOB.submitted_at and JOB.submitted_at - 86_400)
    assert observed(JOB, [], [old], asked=True).state is None
    assert observed(JOB, [row("COMPLETED", submitted_at=old.submitted_at)], [], asked=True).state is None
    seen = observed(JOB, [], [old, run("FAILED", exit_status=1)], asked=True)
    assert (seen.state and seen.state.name, len(seen.runs), seen.restarts) == ("FAILED", 1, 0)


def test_every_run_of_a_requeued_job_is_kept_in_its_order_and_the_last_decides() -> None:
    runs = [
        run("COMPLETED", submitted_at=1_000_300.0, elapsed=40),
        run("REQUEUED", elapsed=10),
        run("REQUEUED", submitted_at=1_000_150.0, elapsed=20),
    ]
    seen = observed(JOB, [], runs, asked=True)
    assert [one.elapsed for one in seen.runs] == [10, 20, 40]
    assert (seen.state and seen.state.name, seen.restarts) == ("COMPLETED", 2)


def test_a_state_that_nobody_has_heard_of_is_not_an_end() -> None:
    assert not observed(JOB, [row("SHINY_NEW")], [], asked=True).settled
    assert not observed(JOB, [], [run("SHINY_NEW")], asked=True).settled


def test_which_states_are_ends() -> None:
    assert {name for name, state in table().items() if has_ended(state)} == {
        "COMPLETED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "FAILED", "OUT_OF_MEMORY", "BOOT_FAIL",
        "DEADLINE", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED",
    }  # fmt: skip


def test_what_is_disowned_in_the_queue_is_disowned_in_accounting_too_whose_name_comes_late() -> None:
    job = dataclasses.replace(JOB, name="mine")
    theirs = row("COMPLETED", name="train")
    unnamed = run("COMPLETED", name="")
    assert observed(job, [theirs], [unnamed], asked=True).state is None
    own = run("COMPLETED", name="mine", submitted_at=1_000_005.0)
    seen = observed(job, [theirs], [unnamed, own], asked=True)
    assert seen.runs == (own,)


def test_while_the_controller_is_away_a_record_with_neither_name_nor_comment_says_nothing() -> None:
    assert observed(JOB, None, [run("COMPLETED", name="", comment="")], asked=True).state is None
    assert observed(JOB, [], [run("COMPLETED", name="", comment="")], asked=True).settled
    for known in ({"name": "n", "comment": ""}, {"name": "", "comment": "t"}):
        assert observed(JOB, None, [run("COMPLETED", **known)], asked=True).settled
