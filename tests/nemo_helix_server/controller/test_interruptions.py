"""Runs that a scheduler lets wait, preempts or ends, as the fake executor shows them to the controller."""

import hashlib

import pytest
from tests.helix_workplace import passes, shell, token

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import starts
from nemo_helix_server.executors.fake import FakeStepExecutor
from nemo_helix_server.jobs import identifiers
from nemo_helix_server.storage.run_files import StepRun
from nemo_trainer import contract

pytestmark = pytest.mark.services


def queued(place):
    job = place.job(shell("true", name="training", pause=60))
    passes(place)
    place.executor.machine.enqueue(token(place, job), "Priority")
    passes(place)
    return job


def active(place, job=None):
    job = job or place.job(shell("true", name="training", pause=60))
    passes(place)
    place.executor.machine.begin(token(place, job))
    passes(place)
    assert place.get(job).status is Status.ACTIVE
    return job


def save(place, job, number):
    folder = place.trainer(job) / "checkpoints" / str(number)
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"weights")
    entry = contract.FileEntry("weights", 7, hashlib.sha256(b"weights").hexdigest())
    manifest = contract.Manifest(
        step=number, files=(entry,), attempt=place.get(job).attempt_id, task=token(place, job)
    )
    contract.write_manifest(folder, manifest)


def test_what_it_waits_for_is_shown_until_it_runs(place):
    job = queued(place)
    assert place.get(job).status is Status.PENDING
    assert place.step_of(job).status_details["queued_reason"] == "Priority"
    assert place.get(job).status_details["queued_reason"] == "Priority"
    place.executor.machine.enqueue(token(place, job), "Resources")
    passes(place)
    assert place.step_of(job).status_details["queued_reason"] == "Resources"
    active(place, job)
    assert "queued_reason" not in place.step_of(job).status_details
    assert "queued_reason" not in place.get(job).status_details


@pytest.mark.parametrize("restarted", [False, True])
def test_days_in_the_queue_are_no_late_start_and_the_limit_counts_from_its_end(place, clock, restarted):
    job = queued(place)
    clock.advance(3 * 86_400)
    passes(place)
    assert place.get(job).status is Status.PENDING
    place.executor.machine.dequeue(token(place, job))
    if restarted:
        place.controller.stop()
        place.controller = place.new_controller()
    passes(place)
    clock.advance(1799)
    passes(place)
    assert not place.executor.machine.runs[token(place, job)].stops
    clock.advance(2)
    passes(place, 1)
    assert place.executor.machine.runs[token(place, job)].stops == [0]


def test_a_pause_of_what_waits_in_the_queue_is_through_at_once(place):
    job = queued(place)
    before = token(place, job)
    place.pause(job)
    passes(place)
    assert place.get(job).status is Status.PAUSED
    assert "queued_reason" not in place.get(job).status_details
    assert place.executor.machine.runs[before].stops == [0]
    place.resume(job)
    passes(place)
    assert token(place, job) != before


def test_so_is_a_cancel(place):
    job = queued(place)
    place.cancel(job)
    passes(place)
    assert place.get(job).status is Status.CANCELLED


def say(place, job, **fields):
    path = place.trainer(job) / "progress.json"
    contract.write_progress(path, {"task": token(place, job), **fields}, durable=True)


def message(place, job):
    return place.step_of(job).status_details["message"]


ENDS = {
    "drained ahead of the walltime": lambda machine, task: machine.end(
        task, 75, interrupted="its walltime was nearly over"
    ),
    "left by itself": lambda machine, task: machine.end(task, 75),
    "walltime": lambda machine, task: machine.end(
        task, 137, timed_out=True, interrupted="its walltime was over"
    ),
    "preempted": lambda machine, task: machine.lose(task, interrupted="it was preempted"),
    "preempted in its grace": lambda machine, task: machine.end(
        task, 143, stopped=True, interrupted="it was preempted"
    ),
    "node lost": lambda machine, task: machine.lose(
        task, interrupted="the node n3 failed", failed_nodes=("n3",)
    ),
    "requeued": lambda machine, task: machine.lose(task, interrupted="it was requeued"),
    "restarted": lambda machine, task: machine.lose(task, interrupted="the machine was restarted"),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_lost_place_leads_to_another_allocation_of_the_same_attempt_while_the_job_stays_active(place, how):
    job = active(place)
    before, attempt = token(place, job), place.get(job).attempt_id
    save(place, job, 4200)
    ENDS[how](place.executor.machine, before)
    place.controller.run_once()
    assert place.get(job).status is Status.ACTIVE
    assert message(place, job).startswith("waits for a node after ")
    assert message(place, job).endswith(", 2nd allocation, from step 4,200")
    assert place.get(job).status_details["goes_on"] == message(place, job)
    passes(place)
    assert token(place, job) != before
    assert place.step_of(job).status is Status.PENDING
    active(place, job)
    assert place.get(job).attempt_id == attempt
    assert "goes_on" not in place.step_of(job).status_details
    assert "goes_on" not in place.get(job).status_details
    assert place.history(job, job_only=True)[-1].endswith(">active")


def test_one_that_waits_for_capacity_says_so_and_stays_active(place):
    job = active(place)
    place.executor.machine.slots = 1
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    other = place.job(shell("true"))
    place.executor.machine.slots = 0
    passes(place)
    assert place.step_of(job).status is Status.QUEUED
    assert place.get(job).status is Status.ACTIVE
    assert "waits for a node after it was preempted, 2nd allocation, from the beginning: " in message(
        place, job
    )
    assert "slots are held" in message(place, job)
    assert place.get(other).status is Status.QUEUED


@pytest.mark.parametrize("waiting", [False, True])
def test_a_pause_between_two_allocations_is_through_at_once(place, waiting, monkeypatch):
    ended = []
    monkeypatch.setattr(
        FakeStepExecutor, "end_chain", lambda _fake, run: ended.append(run.token), raising=False
    )
    job = active(place)
    before = token(place, job)
    save(place, job, 40)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    if waiting:
        place.executor.machine.slots = 0
        passes(place)
    else:
        with monkeypatch.context() as patch:
            patch.setattr(starts.Starter, "admit", lambda _starter, _contexts: 0)
            place.controller.run_once()
        assert place.step_of(job).status is Status.RESUMING
    assert place.get(job).status is Status.ACTIVE
    place.pause(job)
    assert place.get(job).status is Status.PAUSED
    place.executor.machine.slots = 10
    passes(place)
    assert ended == [before]
    assert place.get(job).status is Status.PAUSED
    place.resume(job)
    assert place.get(job).status is Status.RESUMING
    active(place, job)


def test_a_cancel_between_two_allocations_is_through_at_once(place):
    job = active(place)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    place.executor.machine.slots = 0
    passes(place)
    place.cancel(job)
    passes(place)
    assert place.get(job).status is Status.CANCELLED


def long_enough(place, clock, job):
    """The allocation trains for more than the interval between its saves."""
    say(place, job, training_since=clock.seconds(), checkpoint_interval={"seconds": 900.0})
    clock.advance(1000)


def test_two_allocations_in_a_row_that_were_long_enough_and_saved_nothing_end_it(place, clock):
    job = active(place)
    long_enough(place, clock, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    active(place, job)
    long_enough(place, clock, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    passes(place)
    failed = place.get(job)
    assert (failed.status, failed.reason) == (Status.ERROR, "interrupted_without_progress")
    assert "2 times in a row" in failed.error_details["message"]
    assert "it was preempted" in failed.error_details["message"]
    assert failed.error_details["rerun"] == "begins at its first training step"


def test_checkpoints_in_between_keep_it_going_and_a_damaged_one_does_not(place, clock):
    job = active(place)
    for number in range(1, 8):
        save(place, job, number)
        long_enough(place, clock, job)
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        active(place, job)
    for number in (8, 9):
        save(place, job, number)
        (place.trainer(job) / "checkpoints" / str(number) / "weights").unlink()
        long_enough(place, clock, job)
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        if number == 8:
            active(place, job)
    passes(place)
    assert place.get(job).reason == "interrupted_without_progress"


def test_short_ones_wait_longer_and_longer_and_end_by_their_number(place, clock):
    job = place.job(shell("true", name="training", pause=60, max_continuations=3))
    active(place, job)
    for wait in (0, 10, 20):
        before = token(place, job)
        place.executor.machine.lose(before, interrupted="it was preempted")
        passes(place)
        if wait:
            assert token(place, job) == before
            assert "so it waits a while" in message(place, job)
            assert place.get(job).status is Status.ACTIVE
            clock.advance(wait - 1)
            passes(place)
            assert token(place, job) == before
            clock.advance(1)
        active(place, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    passes(place)
    failed = place.get(job)
    assert (failed.status, failed.reason) == (Status.ERROR, "continuation_budget_spent")
    assert "4th time, and goes on at most 3 times (max_continuations)" in failed.error_details["message"]


def test_all_allocations_together_take_so_long_and_no_longer(place, clock):
    job = place.job(shell("true", name="training", pause=60, max_walltime_seconds=1500))
    active(place, job)
    for number in (1, 2):
        save(place, job, number)
        clock.advance(1000)
        place.executor.machine.lose(token(place, job), interrupted="its walltime was over")
        if number == 1:
            active(place, job)
    passes(place)
    assert place.get(job).reason == "continuation_budget_spent"
    assert "33 min" in place.get(job).error_details["message"]


def test_a_node_that_failed_it_twice_is_excluded_from_then_on(place):
    job = active(place)
    for number, excluded in ((1, ()), (2, ("n3",)), (3, ("n3",))):
        save(place, job, number)
        failed = ("n3",) if number < 3 else ("n4",)
        place.executor.machine.lose(
            token(place, job), interrupted=f"the node {failed[0]} failed", failed_nodes=failed
        )
        active(place, job)
        assert place.executor.machine.runs[token(place, job)].launch.exclude_nodes == excluded
    assert place.step_of(job).status_details["allocations"]["node_failures"] == {"n3": 2, "n4": 1}


def test_a_pause_in_between_begins_the_count_again(place, clock):
    job = active(place)
    long_enough(place, clock, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    active(place, job)
    place.pause(job)
    passes(place)
    say(place, job, final_step=0, seq_seen=1)
    place.executor.machine.end(token(place, job), 75)
    passes(place)
    assert place.get(job).status is Status.PAUSED
    place.resume(job)
    active(place, job)
    long_enough(place, clock, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    passes(place)
    assert place.get(job).status is Status.ACTIVE


def test_a_training_that_hangs_shows_its_stacks_and_goes_on_from_its_checkpoint(place, clock):
    job = place.job(shell("true", name="training", pause=60, staleness=300))
    active(place, job)
    save(place, job, 40)
    before = token(place, job)
    clock.advance(301)
    place.controller.run_once()
    assert place.executor.machine.runs[before].stops == [0]
    assert place.executor.machine.runs[before].stacks
    place.executor.machine.end(before, 137, stopped=True, asked=True)
    passes(place)
    assert token(place, job) != before
    assert "no sign of life for 300 seconds, 2nd allocation, from step 40" in message(place, job)
    assert place.step_of(job).status_details["allocations"]["ended"] == 1


def test_without_a_checkpoint_a_training_that_hangs_ends_in_error(place, clock):
    job = place.job(shell("true", name="training", pause=60, staleness=300))
    active(place, job)
    clock.advance(301)
    place.controller.run_once()
    place.executor.machine.end(token(place, job), 137, stopped=True, asked=True)
    passes(place)
    assert (place.get(job).status, place.get(job).reason) == (Status.ERROR, "stale")


@pytest.mark.parametrize("status", [1, 2, 3, 4, 5, 139])
def test_a_failure_of_its_own_code_is_never_repeated(place, status):
    job = active(place)
    save(place, job, 40)
    place.executor.machine.end(token(place, job), status)
    passes(place)
    assert place.get(job).status is Status.ERROR


def test_a_restart_of_the_service_between_two_allocations_changes_nothing(place, clock):
    job = active(place)
    for _ in range(2):
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        passes(place)
        if place.step_of(job).status is Status.PENDING:
            active(place, job)
    before = token(place, job)
    place.controller.stop()
    place.controller = place.new_controller()
    passes(place)
    assert token(place, job) == before
    assert place.get(job).status is Status.ACTIVE
    clock.advance(10)
    passes(place)
    assert token(place, job) != before


class Chains:
    """The fake executor's chains, as one that queues starts itself would know them."""

    def __init__(self, monkeypatch, place, job):
        self.place, self.ended = place, []
        self.run = StepRun("default", job, place.get(job).attempt_id, "training", token(place, job))
        self.open = [self.run]
        chains = self
        monkeypatch.setattr(FakeStepExecutor, "end_chain", lambda _fake, run: chains._end(run), raising=False)
        monkeypatch.setattr(FakeStepExecutor, "open_chains", lambda _fake: list(chains.open), raising=False)

    def _end(self, run):
        self.ended.append(run.token)
        self.open = [one for one in self.open if one.token != run.token]

    def restarted(self):
        """What a controller that begins asks for; those of the one before were lost with it."""
        self.ended.clear()
        self.place.controller = self.place.new_controller()
        self.place.controller.executor.named("")
        self.place.controller.starter.find_open_chains()
        passes(self.place)
        return self.ended


def test_the_chain_of_a_step_that_has_ended_is_ended_by_the_next_controller_too(place, monkeypatch):
    job = active(place)
    chains = Chains(monkeypatch, place, job)
    place.executor.machine.end(token(place, job), 0)
    passes(place)
    assert place.get(job).status is Status.COMPLETED
    chains.open = [chains.run]  # killed before it could ask the cluster
    assert chains.restarted() == [chains.run.token]
    assert chains.restarted() == []


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_chain_of_a_step_that_goes_on_is_left_alone(place, monkeypatch, lost):
    job = active(place)
    chains = Chains(monkeypatch, place, job)
    for _ in range(lost):
        save(place, job, 40 + len(place.history(job)))
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        passes(place)
        active(place, job)
    assert chains.restarted() == []


def test_the_chain_before_a_pause_is_ended_though_the_step_trains_again(place, monkeypatch):
    job = active(place)
    chains = Chains(monkeypatch, place, job)
    old = identifiers.task_name()  # a start that was paused: the next one was named by itself
    chains.open = [chains.run._replace(token=old), chains.run]
    assert chains.restarted() == [old]


def test_the_chain_of_a_job_that_is_gone_is_ended(place, monkeypatch):
    job = active(place)
    chains = Chains(monkeypatch, place, job)
    chains.open = [chains.run._replace(job_id="gone", attempt_id="gone")]
    assert chains.restarted() == [chains.run.token]
