"""An executor that fails, hangs or takes long: other jobs go on, and health, log and job say what it is."""

import threading
from dataclasses import replace

import pytest
from tests.helix_workplace import TIMEOUT, Workplace, shell

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.supervision.start_threads import StartThreads
from nemo_helix_server.executors.base import ExecutorError, RunObservation, RunState
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import JobsSettings, ProfileSettings
from nemo_runs.clock import MovableClock

pytestmark = pytest.mark.services


class OddProfiles(Profiles):
    """The usual ones, and one named "odd" of the executor of that name."""

    def __init__(self):
        super().__init__(JobsSettings())

    def executor(self, provider, profile):
        return "odd" if profile == "odd" else ""

    def settings(self, provider, profile):
        return ProfileSettings()

    def has(self, provider, profile):
        return True


class Two:
    """A service with the fake, and with another executor that is ``odd``."""

    def __init__(self, folder):
        self.clock = MovableClock()
        self.machine = FakeMachine(self.clock)
        self.odd = FakeStepExecutor(FakeMachine(self.clock))
        kinds = {"": FakeStepExecutor(self.machine), "odd": self.odd}
        kinds["fine"] = kinds[""]
        self.executors = Executors(kinds.__getitem__, "fine", folder, self.clock.monotonic)
        self.place = Workplace(
            folder / "data", clock=self.clock, executor=self.executors, profiles=OddProfiles()
        )

    def job(self, profile="default"):
        made = shell("true", pause=60)
        made["executor"]["profile"] = profile
        return self.place.job(made)

    def passes(self, count=1):
        for _ in range(count):
            self.place.controller.run_once()

    def running(self, profile):
        """A job that runs there."""
        job = self.job(profile)
        self.passes(2)
        machine = self.odd.machine if profile == "odd" else self.machine
        machine.begin(self.place.step_of(job).task)
        self.passes()
        assert self.place.get(job).status is Status.ACTIVE
        return job

    def problem(self, job):
        """What the job's owner sees; the step says the same."""
        found = self.place.get(job).status_details.get("executor_problem")
        assert self.place.step_of(job).status_details.get("executor_problem") == found
        return found


@pytest.fixture
def two(tmp_path):
    two = Two(tmp_path)
    yield two
    two.place.controller.stop(0)
    two.place.store.close()


def does(error):
    def raising(*_, **__):
        raise error

    return raising


@pytest.mark.parametrize("error", [SystemExit("bye"), ZeroDivisionError("of its own")])
@pytest.mark.parametrize("answer", [None, {}, "raises"])
def test_a_run_that_cannot_be_seen_says_so_until_it_can(two, monkeypatch, error, answer):
    job = two.running("odd")
    monkeypatch.setattr(two.odd, "observe", does(error) if answer == "raises" else lambda _: answer)
    two.passes()
    assert two.problem(job) is None  # one look that fails is no news
    two.clock.advance(6)
    two.passes(3)
    assert two.problem(job).startswith("it cannot be seen at the moment: the executor 'odd' ")
    assert any("the executor 'odd'" in one for one in two.place.controller.problems())
    monkeypatch.undo()
    two.passes(2)
    assert two.problem(job) is None
    assert two.place.controller.problems() == []
    two.odd.machine.end(two.place.step_of(job).task, 0)
    two.passes()
    assert two.place.get(job).status is Status.COMPLETED


@pytest.mark.parametrize("method", ["start", "files", "place"])
@pytest.mark.parametrize("error", [SystemExit("bye"), ZeroDivisionError("of its own")])
def test_a_job_that_cannot_be_started_says_why_and_starts_when_it_can(two, monkeypatch, method, error):
    monkeypatch.setattr(two.odd, method, does(error), raising=False)
    job, other = two.job("odd"), two.job()
    two.passes(4)
    says = f"the executor 'odd' fails in {method}: {type(error).__name__}"
    step = two.place.step_of(job)
    shown = step.status_details.get("executor_problem") or step.status_details.get("message")
    assert says in shown
    assert any(says in one for one in two.place.controller.problems())
    assert two.place.step_of(other).task in two.machine.runs
    monkeypatch.undo()
    two.passes(3)
    assert two.place.step_of(job).task in two.odd.machine.runs
    assert two.problem(job) is None


def test_a_job_that_cannot_be_stopped_says_why(two, monkeypatch, caplog):
    job = two.running("odd")
    monkeypatch.setattr(two.odd, "stop", does(SystemExit("bye")))
    two.place.cancel(job)
    two.passes(4)
    says = "its end is tried again: the executor 'odd' fails in stop: SystemExit: bye"
    assert two.problem(job) == says
    assert two.place.get(job).status is Status.CANCELLING
    assert len([one for one in caplog.messages if one.endswith(says)]) == 1
    monkeypatch.undo()
    two.passes(2)
    assert two.problem(job) is None
    two.odd.machine.end(two.place.step_of(job).task, 143)
    two.passes()
    assert two.place.get(job).status is Status.CANCELLED


def test_a_cancel_that_is_not_answered_says_that_it_is_ended_another_way(two, caplog):
    job = two.running("odd")
    two.place.cancel(job)
    two.passes(2)
    assert two.problem(job) is None
    two.clock.advance(two.place.settings.jobs.cancel_deadline_seconds + 1)
    two.passes(3)
    says = "seconds of the cancel, so its processes are ended by a signal"
    assert two.problem(job).endswith(says)
    assert len([one for one in caplog.messages if one.endswith(says)]) == 1


def test_a_pause_that_is_not_answered_says_that_it_is_ended_another_way(two, caplog):
    job = two.running("odd")
    two.place.pause(job)
    two.passes(2)
    assert two.problem(job) is None
    two.clock.advance(60 + 1)  # its pause deadline
    two.passes(3)
    says = "did not save and leave within 60 seconds of the pause, so its processes are ended"
    assert says in two.problem(job)
    assert len([one for one in caplog.messages if says in one]) == 1


def test_what_an_executor_did_in_place_of_a_request_is_in_the_details_and_the_history(two):
    job = two.running("odd")
    two.place.cancel(job)
    two.passes(2)
    token, said = two.place.step_of(job).task, "no space is left for the request, so its job 7 is cancelled"
    run = two.odd.machine.runs[token]
    run.seen = replace(run.seen, fallback=said)
    two.passes(2)
    assert two.problem(job) == said
    two.odd.machine.end(token, 143)
    two.passes()
    assert two.place.step_of(job).status_details["message"].endswith(f"; {said}")


def test_a_pause_that_cannot_be_asked_for_says_why(two, monkeypatch):
    job = two.running("odd")
    monkeypatch.setattr(two.odd, "request_pause", does(ZeroDivisionError("of its own")))
    two.place.pause(job)
    two.passes(2)
    assert two.problem(job).startswith(
        "a request to it is tried again: the executor 'odd' fails in request_p"
    )
    monkeypatch.undo()
    two.passes(2)
    assert two.problem(job) is None
    assert two.odd.machine.runs[two.place.step_of(job).task].want == "pause"


@pytest.mark.parametrize(
    "descriptors",
    [does(SystemExit("bye")), does(ValueError("x")), lambda: None, lambda: (-1,), lambda: (64_000,)],
)
def test_the_controller_goes_on_whatever_the_descriptors_of_an_executor_are(two, monkeypatch, descriptors):
    monkeypatch.setattr(two.odd, "descriptors", descriptors, raising=False)
    two.executors.named("odd")
    two.place.start()
    other = two.job()
    two.place.wait_for(lambda: two.place.step_of(other).task in two.machine.runs)
    assert any("the executor 'odd'" in one for one in two.place.controller.problems())


def test_a_start_that_takes_long_holds_up_no_other_job_and_is_made_once(two, monkeypatch):
    go_on, begun = threading.Event(), []
    real = two.odd.start

    def start(run, launch):
        begun.append(run.token)
        assert go_on.wait(TIMEOUT)
        real(run, launch)

    monkeypatch.setattr(two.odd, "start", start)
    two.place.controller.starter.threads = StartThreads(wake=two.place.controller.wake)
    two.place.start()
    slow = [two.job("odd") for _ in range(12)]
    two.place.wait_for(lambda: begun)
    other = two.job()
    two.place.wait_for(lambda: two.place.step_of(other).task in two.machine.runs)
    two.machine.begin(two.place.step_of(other).task)
    two.machine.end(two.place.step_of(other).task, 0)
    two.place.until(other, Status.COMPLETED)
    go_on.set()
    two.place.wait_for(lambda: len(two.odd.machine.runs) == len(slow))
    assert sorted(begun) == sorted(two.place.step_of(job).task for job in slow)


def test_what_was_given_up_while_its_start_was_under_way_is_ended_afterwards(two, monkeypatch):
    """The executor forgets that it was asked to stop what it starts."""
    go_on, begun, stops = threading.Event(), threading.Event(), []

    def start(run, launch):
        begun.set()
        assert go_on.wait(TIMEOUT)

    monkeypatch.setattr(two.odd, "start", start)
    monkeypatch.setattr(two.odd, "stop", lambda run, **_: stops.append(run.token))
    starter = two.place.controller.starter
    starter.threads = StartThreads()
    job = two.job("odd")
    two.passes(2)
    assert begun.wait(TIMEOUT)
    two.place.cancel(job)
    two.passes()
    two.clock.advance(1000)
    two.passes(2)
    assert two.place.get(job).status is Status.CANCELLED
    before = len(stops)
    go_on.set()
    starter.threads.stop(TIMEOUT)
    assert stops[before:] == [two.place.step_of(job).task]


@pytest.mark.parametrize("method", ["observe", "stop"])
def test_a_call_that_hangs_is_a_problem_that_names_the_executor(two, monkeypatch, method):
    hung, go_on = threading.Event(), threading.Event()
    job = two.running("odd")

    def hang(*_, **__):
        hung.set()
        go_on.wait(TIMEOUT)
        return {}

    monkeypatch.setattr(two.odd, method, hang)
    two.place.start()
    two.place.cancel(job)
    assert hung.wait(TIMEOUT)
    assert two.place.controller.problems() == []
    two.clock.advance(45)
    (first, second) = two.place.controller.problems()
    assert first.startswith("no job has been looked after for 45 seconds: the controller waits; the executor")
    assert second == f"the executor 'odd' has not returned from {method} for 45 seconds"
    go_on.set()


def test_an_executor_that_cannot_warm_up_keeps_no_service_from_its_work(two, monkeypatch):
    monkeypatch.setattr(two.odd, "warm", does(SystemExit("bye")), raising=False)
    monkeypatch.setattr(two.odd, "open_chains", does(SystemExit("bye")), raising=False)
    two.executors.named("odd")
    two.place.start()
    other = two.job()
    two.place.wait_for(lambda: two.place.step_of(other).task in two.machine.runs)
    assert "the executor 'odd' fails in warm: SystemExit: bye" in two.place.controller.problems()


def test_what_failed_is_over_with_the_status_in_which_it_did(two, monkeypatch):
    monkeypatch.setattr(two.odd, "start", does(ZeroDivisionError("of its own")))
    job = two.job("odd")
    two.passes(3)
    assert "of its own" in two.problem(job)
    monkeypatch.undo()
    two.passes()
    monkeypatch.setattr(two.odd, "request_pause", does(ZeroDivisionError("of its own")))
    two.odd.machine.begin(two.place.step_of(job).task)
    two.passes(2)
    two.place.pause(job)
    two.passes(2)
    assert "a request to it" in two.problem(job)
    two.place.resume(job)  # before it was asked for
    monkeypatch.undo()
    two.passes(2)
    assert (two.place.get(job).status, two.problem(job)) == (Status.ACTIVE, None)


def test_a_start_that_fails_in_the_same_way_again_and_again_is_logged_once(two, monkeypatch, caplog):
    monkeypatch.setattr(two.odd, "start", does(ExecutorError("the login node is away")))
    job, tries = two.job("odd"), []
    two.passes(4)
    monkeypatch.setattr(two.odd, "start", lambda *_: tries.append(1))  # it begins well, and fails later
    monkeypatch.setattr(
        two.odd, "observe", lambda runs: {run.token: RunObservation(RunState.ABSENT) for run in runs}
    )
    two.passes(3)
    assert tries
    monkeypatch.setattr(two.odd, "start", does(ExecutorError("the login node is away")))
    two.passes(4)
    assert two.problem(job) == "its start is tried again: the login node is away"
    assert len([one for one in caplog.messages if "the login node is away" in one]) == 1


@pytest.mark.parametrize("act", [None, "pause", "cancel"])
def test_a_run_that_was_not_seen_lately_says_so_on_its_job_whatever_is_asked_of_it(two, monkeypatch, act):
    job = two.running("odd")
    unseen = "not seen since 2026-11-30 16:40 UTC: lab cannot be asked"
    late = RunObservation(RunState.RUNNING, unseen=unseen)
    monkeypatch.setattr(two.odd, "observe", lambda runs: {run.token: late for run in runs})
    if act:
        getattr(two.place, act)(job)
    two.passes(2)
    assert two.problem(job) == unseen
    monkeypatch.undo()
    two.passes(2)
    assert two.problem(job) is None
