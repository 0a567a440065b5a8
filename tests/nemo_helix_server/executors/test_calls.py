"""Whatever an executor raises, answers or takes too long for is its own failure, said with its name."""

import asyncio
import logging
import os

import pytest
from tests.helix_workplace import run_named

from nemo_helix_server import executor_kinds
from nemo_helix_server.executors import answers
from nemo_helix_server.executors.base import (
    Admitted,
    ExecutorError,
    NeverPossibleError,
    RunObservation,
    RunState,
    WaitingForCapacity,
)
from nemo_helix_server.executors.calls import BrokenExecutorError, ExecutorCalls
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.executors.fake import FakeStepExecutor
from nemo_helix_server.settings import ProfileSettings

RUN = run_named("task-1", "odd")


class Odd(FakeStepExecutor):
    """An executor of which one method does something else."""

    def __init__(self, method, does):
        super().__init__()
        setattr(self, method, lambda *_, **__: does())


def raising(error):
    def does():
        raise error

    return does


def executors_with(tmp_path, method, does):
    """Two executors, of which the one named "odd" does what it wants."""
    kinds = {"fine": FakeStepExecutor(), "odd": Odd(method, does)}
    found = Executors(kinds.__getitem__, "fine", tmp_path)
    for name in kinds:
        found.named(name)
    return found


@pytest.mark.parametrize(
    "error", [ValueError("a word"), SystemExit(3), asyncio.CancelledError("a word"), GeneratorExit()]
)
@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("start", lambda found: found.start(RUN, None)),
        ("stop", lambda found: found.stop(RUN, grace_seconds=0)),
        ("kill", lambda found: found.kill(RUN)),
        ("last_request", lambda found: found.last_request(RUN)),
        ("release", lambda found: found.release(RUN)),
        ("place", lambda found: found.place(RUN, ProfileSettings())),
    ],
)
def test_what_is_raised_becomes_one_error_that_names_the_executor(tmp_path, method, ask, error):
    found = executors_with(tmp_path, method, raising(error))
    with pytest.raises(BrokenExecutorError) as raised:
        ask(found)
    assert str(raised.value).startswith(f"the executor 'odd' fails in {method}: {type(error).__name__}")
    assert found.problems() == [str(raised.value)]


@pytest.mark.parametrize("error", [ExecutorError("not now"), NeverPossibleError("never")])
def test_what_the_protocol_allows_goes_through_and_is_no_problem(tmp_path, error):
    found = executors_with(tmp_path, "start", raising(error))
    with pytest.raises(type(error)):
        found.start(RUN, None)
    assert found.problems() == []


def test_an_interrupt_goes_through(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        executors_with(tmp_path, "start", raising(KeyboardInterrupt())).start(RUN, None)


@pytest.mark.parametrize(
    ("method", "answer", "ask", "says"),
    [
        ("admit", None, lambda one: one.admit(type("R", (), {"run": RUN})), "has to be Admitted or Waiting"),
        ("admit", Admitted((0,), 1), lambda one: one.admit(type("R", (), {"run": RUN})), "sequence of str"),
        ("last_request", "7", lambda one: one.last_request(RUN), "it is '7', and has to be int or None"),
        ("last_request", True, lambda one: one.last_request(RUN), "it is True, and has to be int or None"),
        (
            "place",
            None,
            lambda one: one.place(RUN, ProfileSettings()),
            "it is None, and has to be a RunPlace",
        ),
        ("files", None, lambda one: one.files(RUN), "it is None, and has to be a RunStorage"),
    ],
)
def test_an_answer_of_another_type_is_refused_where_it_comes_from(tmp_path, method, answer, ask, says):
    found = executors_with(tmp_path, method, lambda: answer)
    with pytest.raises(
        BrokenExecutorError, match=f"the executor 'odd' answers wrongly to {method}: "
    ) as raised:
        ask(found)
    assert says in str(raised.value)


def test_the_answers_of_a_place_are_looked_at_too(tmp_path):
    class Place:
        environment = machine = engine = python = has_program = environment_digest = lambda *_: 17

    place = executors_with(tmp_path, "place", Place).place(RUN, ProfileSettings())
    for ask in (
        place.environment,
        place.machine,
        place.python,
        lambda: place.engine("hf", None),
        lambda: place.has_program((), {}),
        lambda: place.environment_digest((), {}),
    ):
        with pytest.raises(BrokenExecutorError, match=r"the executor 'odd' answers wrongly to place\."):
            ask()


SEEN = RunObservation(RunState.RUNNING)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "it is None, and has to be a mapping"),
        ([SEEN], "and has to be a mapping"),
        ({}, "it says nothing of task-1"),
        ({"task-2": SEEN}, "it says nothing of task-1"),
        ({"task-1": "running"}, "of task-1 it says 'running', and has to say a RunObservation"),
        ({"task-1": RunObservation("jogging")}, "of task-1 it says state='jogging'"),
        ({"task-1": RunObservation("running")}, "of task-1 it says state='running'"),
        ({"task-1": RunObservation(RunState.EXITED, exit_status="0")}, "exit_status='0'"),
        ({"task-1": RunObservation(RunState.RUNNING, started_at=float("nan"))}, "started_at=nan"),
        ({"task-1": RunObservation(RunState.LOST, reason=None)}, "reason=None"),
        ({"task-1": RunObservation(RunState.LOST, failed_nodes="n1")}, "failed_nodes='n1'"),
    ],
)
def test_a_look_that_says_nothing_of_a_run_leaves_it_unknown_and_is_said(tmp_path, answer, says, caplog):
    found = executors_with(tmp_path, "observe", lambda: answer)
    fine = run_named("task-2", "fine")
    for _ in range(3):
        seen = found.observe([RUN, fine])
    # what it says of runs that are not its own counts for nothing
    assert (seen["task-1"].state, seen["task-2"].state) == (RunState.UNKNOWN, RunState.ABSENT)
    assert says in seen["task-1"].reason
    assert found.problems() == [seen["task-1"].reason]
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("the executor 'odd' answers wrongly to observe: ")


def closed():
    return [64_000]


def blocking():
    return os.pipe()[:1]


@pytest.mark.parametrize(
    "does", [raising(OSError("away")), raising(SystemExit()), lambda: None, lambda: (-1,), closed, blocking]
)
def test_descriptors_that_cannot_be_waited_for_are_left_out(tmp_path, does):
    found = executors_with(tmp_path, "descriptors", does)
    assert found.descriptors() == ()
    found.drain()
    assert "the executor 'odd'" in found.problems()[0]


def test_a_descriptor_behind_which_nothing_is_any_more_is_not_waited_for(tmp_path):
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    found = executors_with(tmp_path, "descriptors", lambda: (read,))
    os.write(write, b"x")
    found.drain()
    assert found.descriptors() == (read,)
    os.close(write)
    found.drain()
    assert found.descriptors() == ()
    assert "has closed what wakes the service" in found.problems()[0]
    os.close(read)


def test_one_that_cannot_warm_up_or_close_keeps_nobody_from_it(tmp_path):
    found = executors_with(tmp_path, "warm", raising(SystemExit(1)))
    found.warm()
    assert "fails in warm: SystemExit: 1" in found.problems()[0]
    found = executors_with(tmp_path, "close", raising(SystemExit(1)))
    found.close()
    assert "fails in close: SystemExit: 1" in found.problems()[0]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (None, "the executor 'odd' answers wrongly to open: it is None, which has no start, observe, "),
        ({}, "it is {}, which has no start, observe, "),
        (type("Half", (FakeStepExecutor,), {"kill": None})(), "which has no kill"),
    ],
)
def test_what_is_opened_has_the_methods_of_the_protocol(tmp_path, made, says):
    with pytest.raises(BrokenExecutorError, match=says):
        Executors(lambda _: made, "odd", tmp_path).named("odd")


class TestSaying:
    def ask(self, calls, does, about="task-1"):
        with pytest.raises(BrokenExecutorError):
            calls.ask("odd", "start", does, answers.nothing, about=about)

    def test_a_failure_is_logged_once_and_over_when_it_works(self, caplog):
        now = [0.0]
        calls = ExecutorCalls(monotonic=lambda: now[0])
        for about in ("task-1", "task-2", "task-1"):
            self.ask(calls, raising(ValueError("away")), about)
        assert calls.problems() == ["the executor odd fails in start: ValueError: away"]
        calls.ask("odd", "start", lambda: None, answers.nothing, about="task-1")
        assert len(calls.problems()) == 1
        calls.ask("odd", "start", lambda: None, answers.nothing, about="task-2")
        assert calls.problems() == []
        assert len(caplog.records) == 1

    def test_a_failure_that_does_not_come_again_is_over_after_a_minute(self):
        now = [0.0]
        calls = ExecutorCalls(monotonic=lambda: now[0])
        self.ask(calls, raising(ValueError("away")))
        now[0] = 61.0
        assert calls.problems() == []

    def test_a_call_that_does_not_return_is_said(self):
        now = [0.0]
        calls = ExecutorCalls(monotonic=lambda: now[0])
        said = []

        def long():
            for now[0] in (29.0, 31.0, 45.0):
                said.append(list(calls.slow()))

        calls.ask("odd", "observe", long, answers.nothing)
        assert said[0] == []
        assert said[2] == ["the executor odd has not returned from observe for 45 seconds"]
        assert calls.slow() == []

    def test_a_start_may_take_longer(self):
        now = [0.0]
        calls = ExecutorCalls(monotonic=lambda: now[0])
        said = []

        def long():
            for now[0] in (500.0, 700.0):
                said.append(list(calls.slow()))

        calls.ask("odd", "start", long, answers.nothing)
        assert said == [[], ["the executor odd has not returned from start for 700 seconds"]]


def test_a_value_that_cannot_be_shown_is_named_by_its_type():
    class Bent:
        def __repr__(self):
            raise ValueError

    assert answers.shown(Bent()) == "a Bent"
    assert len(answers.shown("x" * 1000)) == 80


def test_waiting_needs_a_reason():
    with pytest.raises(answers.WrongAnswerError):
        answers.admission(WaitingForCapacity(None))


def test_an_executor_without_a_package_is_named_alone(caplog):
    caplog.set_level(logging.ERROR)
    assert executor_kinds.title(executor_kinds.DEFAULT) == "the executor 'subprocess'"
