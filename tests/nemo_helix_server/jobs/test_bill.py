"""The bill of a job, by the records of its starts and the changes of its steps."""

from types import SimpleNamespace

import pytest

from nemo_helix_server.jobs.allocations import BEGUN, RECORD, AllocationRecord
from nemo_helix_server.jobs.bill import BilledStep, lines, totals
from nemo_helix_server.jobs.states import StatusEvent as E

SECOND = 1_000_000
GPU = {"executor": {"provider": "gpu", "resources": {"num_gpus": 2}}}


def happened(*events):
    """Transitions out of (event, second, task)."""
    return [
        SimpleNamespace(seq=number, event=event, at=round(at * SECOND), task=task)
        for number, (event, at, task) in enumerate(events)
    ]


def billed(history, tasks, *, attempt=0, name="training", spec=GPU):
    rows = [
        SimpleNamespace(
            name=task,
            status_details={RECORD if record.ended_at else BEGUN: record.to_json()} if record else {},
        )
        for task, record in tasks.items()
    ]
    step = SimpleNamespace(name=name, spec=spec)
    return BilledStep(SimpleNamespace(seq=attempt), step, rows, happened(*history))


def record(began, ended, **changes):
    return AllocationRecord(began_at=began, ended_at=ended, gpus=2, first_step=0, **changes)


INTERRUPTED = [
    (E.MADE, 0, None),
    (E.ACCEPTED, 8, "a"),
    (E.STARTED, 11, "a"),
    (E.INTERRUPTED, 115, "a"),
    (E.ACCEPTED, 116, "b"),
    (E.STARTED, 141, "b"),
]


def test_an_interruption_costs_what_was_not_saved_and_the_wait_for_another_place():
    first = record(10, 110, last_step=47, kept_step=40, kept_at=95.0, unannounced=True)
    second = record(140, 200, last_step=80, kept_step=80, kept_at=200.0)
    history = [*INTERRUPTED, (E.FINISHED, 201, "b")]
    found = lines([billed(history, {"a": first, "b": second})], 500 * SECOND)
    assert [(line.waited_seconds, line.lost_seconds, line.repeated_steps) for line in found] == [
        (10.0, 15.0, 7),
        # from when the place was lost, not from when the service noticed
        (30.0, 0.0, 0),
    ]
    sums = totals(found)
    assert (sums["seconds"], sums["gpu_seconds"], sums["lost_gpu_seconds"]) == (160.0, 320.0, 30.0)
    assert (sums["waited_seconds"], sums["interruptions"], sums["repeated_steps"]) == (40.0, 1, 7)


SLEPT = [(E.MADE, 0, None), (E.ACCEPTED, 8, "a"), (E.STARTED, 11, "a"), (E.INTERRUPTED, 90_000, "a")]
"""The service slept for a day, and the successor of a start ran meanwhile."""


def test_a_start_that_is_adopted_has_waited_until_it_began_and_not_until_it_was_seen():
    first = record(10, 110)
    running = record(140, None)
    history = [*SLEPT, (E.ACCEPTED, 90_001, "b"), (E.STARTED, 90_002, "b")]
    (_, line) = lines([billed(history, {"a": first, "b": running})], 90_010 * SECOND)
    assert (line.waited_seconds, line.record.began_at, line.running, line.recorded) == (
        30.0,
        140,
        True,
        False,
    )
    assert line.record.seconds == 90_010 - 140


def test_where_nobody_knows_when_a_place_was_lost_the_scheduler_says_since_when_the_next_waited():
    lost = record(10, None)
    found = record(300, 400, eligible_at=120.0)
    history = [*SLEPT, (E.ACCEPTED, 90_001, "b"), (E.FINISHED, 90_002, "b")]
    step = billed(history, {"a": lost, "b": found})
    step.tasks[0].status_details[RECORD] = step.tasks[0].status_details.pop(BEGUN)
    assert [line.waited_seconds for line in lines([step], 90_010 * SECOND)] == [10.0, 180.0]


def test_the_schedulers_word_never_counts_time_in_which_nobody_wanted_a_start():
    paused = [(E.MADE, 0, None), (E.ACCEPTED, 1, "a"), (E.STARTED, 1, "a"), (E.CHECKPOINT_VERIFIED, 52, "a")]
    history = [*paused, (E.RESUME_REQUESTED, 5000, "a"), (E.ACCEPTED, 5001, "b"), (E.FINISHED, 5050, "b")]
    # its clock is 100 s slow
    found = record(5010, 5049, eligible_at=4902.0)
    (_, line) = lines([billed(history, {"a": record(1, 51), "b": found})], 9000 * SECOND)
    assert line.waited_seconds == 10.0


def test_a_pause_is_neither_waiting_nor_lost():
    history = [
        (E.MADE, 0, None),
        (E.ACCEPTED, 1, "a"),
        (E.STARTED, 1, "a"),
        (E.PAUSE_REQUESTED, 50, "a"),
        (E.CHECKPOINT_VERIFIED, 52, "a"),
        (E.RESUME_REQUESTED, 5000, "a"),
        (E.ACCEPTED, 5001, "b"),
        (E.STARTED, 5003, "b"),
        (E.FINISHED, 5050, "b"),
    ]
    first = record(1, 51, last_step=40, kept_step=40, kept_at=50.9)
    second = record(5002, 5049, last_step=80, kept_step=80, kept_at=5049.0)
    found = lines([billed(history, {"a": first, "b": second})], 9000 * SECOND)
    assert [(line.waited_seconds, line.lost_seconds, line.end) for line in found] == [
        (1.0, 0.0, "paused"),
        (2.0, 0.0, "completed"),
    ]


def test_a_failure_costs_nothing_until_a_rerun_does_its_steps_again():
    failed = record(10, 110, last_step=47, kept_step=40, kept_at=95.0)
    history = [(E.MADE, 0, None), (E.ACCEPTED, 8, "a"), (E.STARTED, 11, "a"), (E.FAILED, 111, "a")]
    first = billed(history, {"a": failed})
    assert totals(lines([first], 500 * SECOND))["lost_seconds"] == 0.0
    again = billed([(E.MADE, 300, None), (E.ACCEPTED, 301, "b")], {"b": None}, attempt=1)
    found = lines([first, again], 500 * SECOND)
    assert [(line.attempt, line.lost_seconds, line.repeated_steps) for line in found] == [
        (0, 15.0, 7),
        (1, 0.0, 0),
    ]


def test_what_runs_is_billed_until_now_and_what_waits_has_waited_until_now():
    first = record(10, 110, last_step=47, kept_step=40, kept_at=95.0)
    running, waiting = (
        lines([billed(history, {"a": first, "b": None})], 200 * SECOND)
        for history in (INTERRUPTED, INTERRUPTED[:-1])
    )
    assert (running[1].running, running[1].record.seconds, running[1].record.gpus) == (True, 59.0, 2)
    assert (running[1].recorded, running[1].waited_seconds, running[1].end) == (False, 31.0, None)
    assert (waiting[1].running, waiting[1].record.seconds, waiting[1].waited_seconds) == (False, 0.0, 90.0)


@pytest.mark.parametrize("seen_running", [True, False])
def test_a_start_from_before_there_were_records_is_billed_by_its_changes(seen_running):
    started = [(E.STARTED, 3, "a")] if seen_running else []
    history = [(E.MADE, 0, None), (E.ACCEPTED, 2, "a"), *started, (E.FINISHED, 9, "a")]
    (line,) = lines([billed(history, {"a": None})], 100 * SECOND)
    assert (line.recorded, line.end) == (False, "completed")
    assert line.record.seconds == (6.0 if seen_running else 7.0)
    assert line.record.gpus == 2


def test_a_job_that_was_never_started_has_an_empty_bill():
    found = lines([billed([(E.MADE, 0, None)], {})], 100 * SECOND)
    assert found == []
    assert set(totals(found).values()) == {0}
