"""What starts leave when they end: a record for the bill, and a count of how often their place interrupts."""

import hashlib

import pytest
from tests.helix_workplace import passes, shell, step, token

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.allocation_ends import record_of
from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.jobs.allocations import RECORD, AllocationRecord
from nemo_helix_server.jobs.bill import BilledAllocation
from nemo_helix_server.service import responses
from nemo_runs.clock import wire
from nemo_trainer import contract

pytestmark = pytest.mark.services
PLACE = "subprocess/default"


def begin(place, job):
    passes(place)
    place.executor.machine.begin(token(place, job))
    passes(place)


def seconds(clock):
    return clock.now() / 1_000_000


def save(place, clock, job, number):
    folder = place.trainer(job) / "checkpoints" / str(number)
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"weights")
    entry = contract.FileEntry("weights", 7, hashlib.sha256(b"weights").hexdigest())
    manifest = contract.Manifest(
        step=number,
        files=(entry,),
        attempt=place.get(job).attempt_id,
        task=token(place, job),
        created_at=seconds(clock),
    )
    contract.write_manifest(folder, manifest)


def say(place, clock, job, **fields):
    said = {"task": token(place, job), "updated_at": seconds(clock), **fields}
    contract.write_progress(place.trainer(job) / "progress.json", said, durable=True)


def records(place, job):
    step_id = place.step_of(job).id
    with place.store.read() as unit:
        tasks = unit.tasks.of_step(step_id)
    return [AllocationRecord.read(task.status_details.get(RECORD)) for task in tasks]


def seen(place, name=PLACE):
    with place.store.read() as unit:
        return unit.places.seen(name)


def interrupted(place, clock, job, *, after=100.0, **facts):
    begin(place, job)
    clock.advance(after)
    place.executor.machine.lose(token(place, job), interrupted="its node failed", **facts)
    passes(place)


def test_a_lost_place_leaves_what_was_trained_and_what_is_kept(place, clock):
    job = place.job(shell("true", name="training", pause=60))
    begin(place, job)
    began = seconds(clock)
    clock.advance(10)
    say(place, clock, job, step=1, training_since=seconds(clock))
    clock.advance(50)
    save(place, clock, job, 40)
    clock.advance(20)
    say(place, clock, job, step=47, training_since=began + 10)
    place.executor.machine.lose(token(place, job), interrupted="its node failed")
    passes(place)
    (record, *_) = records(place, job)
    assert (record.began_at, record.seconds, record.startup_seconds) == (began, 80.0, 10.0)
    assert (record.last_step, record.kept_step, record.repeated_steps) == (47, 40, 7)
    assert (record.unannounced, record.unsaved_seconds) == (True, 20.0)
    assert (seen(place).allocations, seen(place).interruptions, seen(place).seconds) == (1, 1, 80.0)


def test_a_step_that_cannot_go_on_has_a_record_and_says_nothing_of_its_place(place, clock):
    job = place.job(shell("true"))
    begin(place, job)
    clock.advance(30)
    place.executor.machine.end(token(place, job), 0)
    passes(place)
    assert [record.seconds for record in records(place, job)] == [30.0]
    assert seen(place).allocations == 0


def test_what_ends_well_counts_as_time_without_an_interruption(place, clock):
    job = place.job(shell("true", name="training", pause=60))
    begin(place, job)
    clock.advance(30)
    place.executor.machine.end(token(place, job), 0)
    passes(place)
    assert place.get(job).status is Status.COMPLETED
    (record,) = records(place, job)
    assert (record.seconds, record.unannounced, record.repeated_steps) == (30.0, False, 0)
    assert (seen(place).allocations, seen(place).interruptions, seen(place).seconds) == (1, 0, 30.0)
    assert RECORD not in place.get(job).status_details


def test_after_enough_interruptions_a_start_is_told_how_often_to_expect_one(place, clock):
    job = place.job(shell("true", name="training", pause=60))
    told = []
    for _ in range(4):
        passes(place)
        launch = place.executor.machine.runs[token(place, job)].launch
        told.append(launch.environment.get("NEMO_JOB_SECONDS_BETWEEN_INTERRUPTIONS"))
        interrupted(place, clock, job, after=600)
        clock.advance(3600)
    assert told == [None, None, None, f"{(86_400 + 3 * 600) / 4:g}"]
    shown = place.step_of(job).status_details["expected_interruptions"]
    assert (shown["basis"], shown["place"], shown["interruptions_seen"]) == ("measured", PLACE, 3)


def test_days_that_are_long_past_count_no_more(place, clock):
    job = place.job(shell("true", name="training", pause=60))
    interrupted(place, clock, job)
    assert seen(place).interruptions == 1
    clock.advance(91 * 86_400)
    assert seen(place).allocations == 0


def test_another_partition_of_the_same_profile_is_another_place(place):
    with place.store.write() as unit:
        unit.places.count("cpu/cluster, partition a", seconds=10.0, interrupted=True)
    assert seen(place, "cpu/cluster, partition b").allocations == 0
    assert seen(place, "cpu/cluster, partition a").interruptions == 1


def test_the_notice_of_an_interruption_is_on_the_bill(place, clock):
    job = place.job(shell("sleep 600", name="main", pause=60))
    begin(place, job)
    at = seconds(clock)
    said = contract.Allocation(
        ends_at=at + 30, notice="it is preempted", kind="preemption", noticed_at=at, by="Slurm", at=at
    )
    cause = "it was preempted with 30 s of notice"
    place.executor.machine.lose(token(place, job), interrupted=cause, notice=said)
    passes(place)
    (record,) = (one for one in records(place, job) if one is not None)
    assert (record.cause, record.noticed_at) == (cause, at)
    billed = BilledAllocation(
        attempt=0,
        step="main",
        task="task-1",
        record=record,
        recorded=True,
        running=False,
        waited_seconds=0.0,
        end="interrupted",
        repeated_steps=0,
        lost_seconds=0.0,
    )
    (line,) = responses.bill(place.get(job), [billed])["allocations"]
    assert (line["end"], line["cause"], line["notice"]) == ("interrupted", cause, "preemption")
    assert (line["grace_seconds"], line["noticed_at"]) == (30.0, wire(round(at * 1_000_000)))


@pytest.mark.parametrize(
    ("facts", "unannounced"),
    [
        ({"state": RunState.LOST, "interrupted": "its node failed"}, True),
        (
            {"state": RunState.EXITED, "exit_status": 137, "signal": 9, "interrupted": "it was preempted"},
            True,
        ),
        # it saved ahead of it
        ({"state": RunState.EXITED, "exit_status": 75, "interrupted": "it was preempted"}, False),
        # the end was known
        ({"state": RunState.EXITED, "exit_status": 143, "timed_out": True, "interrupted": "time"}, False),
        # it was over before, or never began
        ({"state": RunState.EXITED, "exit_status": 0, "interrupted": "its node failed"}, False),
        ({"state": RunState.LOST, "never_started": True, "interrupted": "its node failed"}, False),
        # its own fault
        ({"state": RunState.EXITED, "exit_status": 1}, False),
        ({"state": RunState.LOST}, False),
    ],
)
def test_only_what_comes_without_notice_is_an_interruption(place, facts, unannounced):
    job = place.job(step(["true"], name="main"))
    with place.store.read() as unit:
        context = unit.steps.context(unit.steps.current(unit.jobs.by_id(job).attempt_id).id)
    found = record_of(context, RunObservation(started_at=1.0, ended_at=5.0, **facts), None)
    assert found.unannounced is unannounced
