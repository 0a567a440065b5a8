"""Whatever a verifier gives or raises is one sentence that names it, and ends nothing."""

import asyncio
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from nemo_gym.agents.registry import GuardedAgent
from nemo_gym.rollouts.output.failures import describe
from nemo_gym.types import Episode, RolloutFailedError, Task, Verdict
from nemo_gym.verifiers.guarded import GuardedVerifier

TITLE = "the verifier 'toy' of the package toys"
EPISODE = Episode({"output": []})


class Toy:
    Options = BaseModel

    def __init__(self, does):
        self.does = does

    def check_row(self, row):
        return self.does()

    async def verify(self, task, episode):
        return self.does()


class AtOnce(Toy):
    def verify(self, task, episode):
        return self.does()


def raises(error):
    def do():
        raise error

    return do


def graded(does, kind=Toy):
    return asyncio.run(GuardedVerifier(kind(does), TITLE).verify(Task(17, 2, {}), EPISODE))


@pytest.mark.parametrize(
    ("does", "kind", "words"),
    [
        (lambda: None, Toy, "gave None, and must give a nemo_gym.types.Verdict"),
        (lambda: 1.0, Toy, "gave 1.0, and must give a nemo_gym.types.Verdict"),
        (lambda: Verdict(1.0), AtOnce, "gave its answer at once, and must be a coroutine: write 'async def'"),
        (lambda: Verdict(1.0, fields=[1]), Toy, r"gave a verdict whose fields are \[1\]"),
        (lambda: Verdict(1.0, metrics=None), Toy, "gave a verdict whose metrics are None"),
        (raises(SystemExit("bye")), Toy, "raised SystemExit: bye"),
        (raises(SystemExit(3)), AtOnce, "raised SystemExit: 3"),
        (raises(asyncio.CancelledError), Toy, "raised CancelledError"),
        (
            raises(type("TimeoutException", (BaseException,), {})("slow")),
            Toy,
            "raised TimeoutException: slow",
        ),
    ],
)
def test_a_grade_that_is_none_names_verifier_package_and_row(does, kind, words):
    with pytest.raises(
        RolloutFailedError, match=f"{TITLE}, asked for the grade of row 17, {words}"
    ) as raised:
        graded(does, kind)
    assert raised.value.failure_class == "verifier_error"


def test_an_ordinary_error_keeps_its_type_and_is_described_with_the_package():
    with pytest.raises(KeyError) as raised:
        graded(raises(KeyError("expected")))
    failure = describe(raised.value, "verifier", GuardedVerifier(Toy(None), TITLE))
    assert failure.failure_type == "KeyError"
    assert failure.message.startswith(f"{TITLE}: 'expected' ({__file__}:")
    built_in = describe(raised.value, "verifier", GuardedVerifier(Toy(None), "the verifier 'match'"))
    assert built_in.message.startswith("'expected' (")


def test_a_cancelled_run_is_cancelled():
    async def run():
        started = asyncio.Event()

        class Waits(Toy):
            async def verify(self, task, episode):
                started.set()
                await asyncio.Event().wait()

        grading = asyncio.create_task(GuardedVerifier(Waits(None), TITLE).verify(Task(0, 0, {}), EPISODE))
        await started.wait()
        grading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await grading

    asyncio.run(run())


@pytest.mark.parametrize(
    ("does", "found"),
    [
        (lambda: None, None),
        (lambda: "no 'want'", "no 'want'"),
        (lambda: 17, f"{TITLE} gave 17 for it, and its check_row must give a text or None"),
        (raises(KeyError("expected")), f"{TITLE} cannot check it: KeyError: 'expected'"),
        (raises(SystemExit("bye")), f"{TITLE} cannot check it: SystemExit: bye"),
    ],
)
def test_a_check_that_fails_is_what_is_wrong_with_the_row(does, found):
    assert GuardedVerifier(Toy(does), TITLE).check_row({}) == found


@pytest.mark.parametrize("name", ["grade_group", "aggregate"])
def test_what_is_made_of_many_rollouts_is_a_mapping(name):
    toy = Toy(None)
    assert not hasattr(GuardedVerifier(toy, TITLE), name)
    setattr(toy, name, len)
    with pytest.raises(RolloutFailedError, match=rf"{TITLE} gave 2, not a mapping, in {name}"):
        getattr(GuardedVerifier(toy, TITLE), name)([1, 2])
    setattr(toy, name, lambda _: raises(SystemExit("bye"))())
    with pytest.raises(RolloutFailedError, match=rf"{TITLE} raised SystemExit: bye in {name}"):
        getattr(GuardedVerifier(toy, TITLE), name)([])


def test_what_a_verifier_declares_is_kept():
    declared = {"metrics": {"a": 1}, "grades_at_once": True, "aggregate": None}
    toy = Toy(None)
    vars(toy).update(declared)
    guarded = GuardedVerifier(toy, TITLE)
    assert {name: getattr(guarded, name) for name in declared} == declared
    assert not hasattr(guarded, "grades_stored_answers")


_ASKED = re.compile(r'(?:getattr|hasattr)\((?:\w+\.)*(?P<who>agent|verifier|inner|one), "(?P<name>\w+)"')


def test_what_is_asked_of_a_verifier_or_an_agent_by_name_passes_the_guard():
    package = Path(__file__).parents[3] / "src" / "nemo_gym"
    asked = {
        (found["who"] == "agent", found["name"])
        for path in package.rglob("*.py")
        for found in _ASKED.finditer(path.read_text(encoding="utf-8"))
    }
    assert (True, "probe") in asked
    assert (False, "aggregate") in asked

    class Everything(Toy):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *_: {}

    agent, verifier = (guard(Everything(None), TITLE) for guard in (GuardedAgent, GuardedVerifier))
    assert [name for of_agent, name in asked if not hasattr(agent if of_agent else verifier, name)] == []
