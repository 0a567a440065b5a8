"""What every executor of the Jobs service promises (see `nemo_helix_server.executors.base`)."""

import os
import secrets
import sys
import time

import pytest
from tests.helix_workplace import AtOnce, run_named

from nemo_helix_server.executors import options
from nemo_helix_server.executors.background import ObservedInBackground
from nemo_helix_server.executors.base import (
    Admitted,
    AlreadyStartedError,
    CapacityRequest,
    ExecutorError,
    Launch,
    ResourceNeeds,
    RunState,
    WaitingForCapacity,
)
from nemo_helix_server.executors.capacity import LeasedCapacity
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.executors.subprocesses import ProcessExecutor
from nemo_helix_server.logs.tail import last_messages
from nemo_helix_server.settings import SubprocessSettings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_storage import LocalRunStorage
from nemo_runs.clock import SystemClock
from nemo_runs.leases import machine_leases
from nemo_trainer import contract

pytestmark = pytest.mark.e2e
TIMEOUT = 60.0
END = 'until [ -e "$FOLDER/end" ]; do sleep 0.02; done; exit "$(cat "$FOLDER/end")"'


class Real:
    """Steps as processes; one ends when a file says how."""

    def __init__(self, folder):
        self.folder = folder
        self.jobs = JobStorage(folder)
        self.files = LocalRunStorage(self.jobs)
        self.made = []

    def executor(self):
        """Another one each time, as a restarted service would have it."""
        place = self.folder / "leases"
        room = LeasedCapacity(machine_leases.Pool(place, (), 2), place)
        self.made.append(ProcessExecutor(self.jobs, self.folder / "executor", room))
        return self.made[-1]

    def launch(self, run, command=END):
        return Launch(
            argv=("/bin/sh", "-c", command),
            environment={"PATH": os.environ["PATH"], "FOLDER": self.files.paths(run).folder},
            working_directory=self.jobs.run_folder(run),
        )

    def begin(self, run):
        pass

    def end(self, run, status):
        folder = self.jobs.run_folder(run)
        (folder / "end.new").write_text(str(status))
        (folder / "end.new").rename(folder / "end")

    def wanted(self, run):
        control = contract.read_control(self.jobs.run_folder(run) / "control.json")
        return control.want if control else "run"

    def stopped(self, run):
        pass

    def close(self):
        for executor in self.made:
            executor.close()


class Fake(Real):
    """The fake of the tests."""

    def __init__(self, folder):
        super().__init__(folder)
        self.machine = FakeMachine(slots=2)

    def executor(self):
        return FakeStepExecutor(self.machine)

    def begin(self, run):
        self.machine.begin(run.token)

    def end(self, run, status):
        self.machine.end(run.token, status)

    def wanted(self, run):
        return self.machine.runs[run.token].want

    def stopped(self, run):
        self.machine.end(run.token, 143, stopped=True)


class FakeInBackground(Fake):
    """The fake as one that is asked over a network: looked at in a thread."""

    def executor(self):
        executor = ObservedInBackground(super().executor(), SystemClock(), interval=0.01, threads=AtOnce())
        executor.warm()
        self.made.append(executor)
        return executor


@pytest.fixture(params=[Real, Fake, FakeInBackground])
def place(request, tmp_path):
    place = request.param(tmp_path)
    yield place
    place.close()


def new_run(place):
    token = f"task-{secrets.token_hex(16)}"
    run = run_named(token)
    place.files.prepare(run, {})
    return run


def request_for(run, at=1.0, slots=1):
    return CapacityRequest(run, "default/" + run.token[:9], "default", ResourceNeeds(), slots, (at, 0))


def until(executor, run, *states):
    deadline = time.monotonic() + TIMEOUT
    while (seen := executor.observe([run])[run.token]).state not in states:
        assert time.monotonic() < deadline, seen
        time.sleep(0.01)
    return seen


def started(place, executor=None):
    executor = executor or place.executor()
    run = new_run(place)
    assert isinstance(options.admit(executor, request_for(run)), Admitted)
    executor.start(run, place.launch(run))
    place.begin(run)
    return executor, run


def test_a_run_that_was_never_started_is_absent(place):
    executor, run = place.executor(), new_run(place)
    assert until(executor, run, RunState.ABSENT)


@pytest.mark.parametrize("status", [0, 1, 75])
def test_the_exit_status_is_reported(place, status):
    executor, run = started(place)
    until(executor, run, RunState.RUNNING)
    place.end(run, status)
    seen = until(executor, run, RunState.EXITED)
    assert (seen.exit_status, seen.signal, seen.stopped) == (status, 0, False)
    assert seen.started_at <= seen.ended_at


def test_a_run_starts_at_most_once(place):
    executor, run = started(place)
    for other in (executor, place.executor()):
        with pytest.raises(AlreadyStartedError):
            other.start(run, place.launch(run))
    place.end(run, 0)
    until(executor, run, RunState.EXITED)
    with pytest.raises(AlreadyStartedError):
        executor.start(run, place.launch(run))


def test_another_executor_finds_a_run_and_its_end(place):
    _, run = started(place)
    other = place.executor()
    until(other, run, RunState.STARTING, RunState.RUNNING)
    place.end(run, 7)
    assert until(other, run, RunState.EXITED).exit_status == 7


def test_a_stopped_run_ends_and_says_that_it_was_stopped(place):
    executor, run = started(place)
    until(executor, run, RunState.RUNNING)
    executor.stop(run, grace_seconds=5)
    executor.stop(run, grace_seconds=5)
    place.stopped(run)
    assert until(executor, run, RunState.EXITED).stopped


def test_a_run_that_was_stopped_before_its_start_never_starts(place):
    executor, run = place.executor(), new_run(place)
    executor.stop(run, grace_seconds=5)
    assert until(executor, run, RunState.LOST)
    with pytest.raises(AlreadyStartedError):
        place.executor().start(run, place.launch(run))


@pytest.mark.parametrize("place", [Fake, FakeInBackground], indirect=True)
def test_a_run_that_is_stopped_in_the_queue_of_a_scheduler_never_starts(place):
    executor, run = place.executor(), new_run(place)
    assert isinstance(options.admit(executor, request_for(run)), Admitted)
    executor.start(run, place.launch(run))
    place.machine.enqueue(run.token, "Priority")
    assert until(executor, run, RunState.QUEUED).reason == "Priority"
    executor.stop(run, grace_seconds=0)
    assert until(executor, run, RunState.LOST).never_started
    with pytest.raises(AlreadyStartedError):
        place.executor().start(run, place.launch(run))


def newest_request(executor, run):
    """It may not be known at once."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        executor.observe([run])
        try:
            return executor.last_request(run)
        except ExecutorError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def until_wanted(place, run, want):
    deadline = time.monotonic() + TIMEOUT
    while place.wanted(run) != want:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pause_is_requested_and_withdrawn_and_an_older_request_changes_nothing(place):
    executor, run = started(place)
    assert newest_request(executor, run) is None
    executor.request_pause(run, seq=1, by="ann", at=1.0)
    until_wanted(place, run, "pause")
    assert newest_request(place.executor(), run) == 1
    executor.withdraw_pause(run, seq=2, by="ann", at=2.0)
    until_wanted(place, run, "run")
    executor.request_pause(run, seq=1, by="ann", at=1.0)
    executor.withdraw_pause(run, seq=3, by="ann", at=3.0)
    until_wanted(place, run, "run")
    place.end(run, 0)
    until(executor, run, RunState.EXITED)


def test_what_has_no_room_waits_its_turn_and_says_for_whom(place):
    executor, first = started(place)
    _, second = started(place, executor)
    third, fourth = new_run(place), new_run(place)
    waiting = options.admit(executor, request_for(third, at=3.0))
    assert isinstance(waiting, WaitingForCapacity)
    assert waiting.reason
    assert isinstance(options.admit(executor, request_for(fourth, at=4.0)), WaitingForCapacity)
    place.end(first, 0)
    until(executor, first, RunState.EXITED)
    assert isinstance(options.admit(executor, request_for(fourth, at=4.0)), WaitingForCapacity)
    assert isinstance(options.admit(executor, request_for(third, at=3.0)), Admitted)
    assert isinstance(options.admit(place.executor(), request_for(third, at=3.0)), Admitted)
    place.end(second, 0)
    until(executor, second, RunState.EXITED)
    assert isinstance(options.admit(executor, request_for(fourth, at=4.0)), Admitted)
    options.release(executor, third)
    options.release(executor, fourth)


def test_who_gives_up_a_place_in_the_queue_lets_the_next_one_pass(place):
    executor = place.executor()
    first, second = new_run(place), new_run(place)
    assert isinstance(options.admit(executor, request_for(first, slots=2)), Admitted)
    assert isinstance(options.admit(executor, request_for(second, at=2.0)), WaitingForCapacity)
    options.release(executor, second)
    options.release(executor, first)
    options.release(executor, first)
    assert isinstance(options.admit(executor, request_for(new_run(place), at=3.0, slots=2)), Admitted)


def test_the_log_of_a_run_is_read_through_its_executor_and_is_seen_to_grow(place):
    executor, run = started(place)
    log = options.files(executor, run, place.files).log(run)
    before = log.mark()
    with place.jobs.run_folder(run).joinpath("output.jsonl").open("a") as file:
        file.write('{"m": "first"}\n{"m": "last"}\n')
    assert last_messages(log)[-2:] == ["first", "last"]
    assert log.mark() != before
    place.end(run, 0)
    until(executor, run, RunState.EXITED)


def test_it_names_the_environment_of_a_command(place):
    found = options.place(place.executor(), SubprocessSettings())
    digest = found.environment_digest((sys.executable,), dict(os.environ))
    assert digest.startswith("sha256:")
