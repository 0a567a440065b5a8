"""Conversations go on as bfcl-eval's own loop does, and tell the verifier all that was said."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, ClassVar

import pytest
from tests.nemo_gym.bfcl.calling import called, spoken

from nemo_gym.bfcl.agent import BfclAgent, BfclAgentOptions, _Conversation
from nemo_gym.bfcl.answers import BROKEN, SAID, said_in
from nemo_gym.bfcl.world import BrokenWorldError, CalledWorld, _answer
from nemo_gym.sandbox.protocol import Completed
from nemo_gym.types import Episode, Task


class Policy:
    """Gives answers in their order, and keeps what it was asked."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def respond(self, params: Any) -> dict[str, Any]:
        self.asked.append(json.loads(json.dumps(params)))
        return self.answers.pop(0)

    async def score(self, context: Any, continuation: Any) -> Any:
        raise AssertionError("an agent with tools asks for no likelihoods")


class ScriptedWorld:
    """Answers each call with its name, unless its arguments are not JSON."""

    def __init__(self, broken: str | None = None) -> None:
        self.broken = broken

    async def call(self, said: Any) -> dict[str, Any]:
        if self.broken:
            raise BrokenWorldError(self.broken)
        try:
            for one in said:
                for text in one.values():
                    json.loads(text)
        except ValueError:
            return {"problem": "no JSON"}
        return {"results": [f"result of {name}" for one in said for name in one]}


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def row(*turns: list[dict[str, str]], later: dict[str, Any] | None = None) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": "cd"}}]
    params = {"input": turns[0], "tools": tools, "temperature": 0}
    return {"bfcl": {"turns": list(turns), "later_tools": later or {}}, "responses_create_params": params}


def play(
    about: dict[str, Any], policy: Policy, world: ScriptedWorld | None = None, max_steps: int = 20
) -> Episode:
    conversation = _Conversation(about, policy, world or ScriptedWorld(), max_steps)  # type: ignore[arg-type]
    return asyncio.run(conversation.play())


def test_a_turn_goes_on_until_an_answer_has_no_call() -> None:
    policy = Policy(called(cd={"folder": "a"}), spoken("There."), called(ls={}, pwd={}), spoken("Done."))
    episode = play(row(user("Go to a."), user("What is there?")), policy)
    assert episode.fields[SAID] == [
        [[{"cd": '{"folder": "a"}'}], "There."],
        [[{"ls": "{}"}, {"pwd": "{}"}], "Done."],
    ]
    assert (episode.text, episode.turns, episode.tool_calls) == ("Done.", 4, 3)
    last = policy.asked[-1]["input"]
    assert [item.get("role") or item["type"] for item in last] == [
        *("user", "function_call", "function_call_output", "assistant"),
        *("user", "function_call", "function_call", "function_call_output", "function_call_output"),
    ]
    assert last[-1]["output"] == "result of pwd"
    ids = [item["call_id"] for item in last if item.get("type") == "function_call"]
    assert len(set(ids)) == 3
    assert ids[-1] == last[-1]["call_id"]
    assert episode.response["usage"]["total_tokens"] == 4 * 15
    assert [step["calls"][0]["result"] for step in episode.fields["trajectory"] if step["calls"]] == [
        "result of cd",
        "result of ls",
    ]


def test_functions_that_come_later_are_offered_from_their_turn_on() -> None:
    later = {"1": [{"type": "function", "function": {"name": "sort"}}]}
    policy = Policy(spoken("I cannot."), called(sort={}), spoken("Done."))
    play(row(user("Sort."), user("What about now?"), later=later), policy)
    offered = [[tool["function"]["name"] for tool in asked["tools"]] for asked in policy.asked]
    assert offered == [["cd"], ["cd", "sort"], ["cd", "sort"]]


def test_calls_that_cannot_be_read_end_the_turn_and_the_next_request_can_be_sent() -> None:
    policy = Policy(called(cd="{bad"), spoken("Done."))
    episode = play(row(user("Go."), user("And?")), policy)
    assert episode.fields[SAID] == [[[{"cd": "{bad"}]], ["Done."]]
    asked = policy.asked[-1]["input"]
    (call,) = [item for item in asked if item.get("type") == "function_call"]
    assert json.loads(call["arguments"])
    assert any(item.get("call_id") == call["call_id"] and "Error" in item.get("output", "") for item in asked)


def test_too_many_answers_with_calls_end_the_conversation() -> None:
    policy = Policy(*[called(cd={}) for _ in range(9)])
    episode = play(row(user("Go."), user("And?")), policy, max_steps=2)
    assert len(policy.asked) == 3
    assert len(episode.fields[SAID]) == 1


def test_thoughts_are_kept_and_not_sent_back() -> None:
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    answer = called(cd={})
    policy = Policy({**answer, "output": [thought, *answer["output"]]}, spoken("Done."))
    episode = play(row(user("Go.")), policy)
    assert "Hm." not in json.dumps(policy.asked[-1])
    assert "Hm." in json.dumps(episode.fields["trajectory"])


def test_a_world_that_breaks_ends_the_conversation_and_is_no_failure_of_the_rollout() -> None:
    episode = play(row(user("Go.")), Policy(called(cd={})), ScriptedWorld("a call took more than 60 s"))
    assert episode.fields[BROKEN] == "a call took more than 60 s"


class CountingProcess:
    """A world that counts its calls; killed at the n-th, counted over all processes."""

    made: ClassVar[list[CountingProcess]] = []

    def __init__(self, killed_at: tuple[int, ...], status: int) -> None:
        self.killed_at, self.status, self.calls = killed_at, status, 0
        self.made.append(self)

    async def write_line(self, line: bytes) -> None:
        self.calls += 1

    async def read_line(self) -> bytes | None:
        if sum(process.calls for process in self.made) in self.killed_at:
            return None
        return json.dumps({"secret": "s", "results": [self.calls]}).encode()

    async def stop(self) -> Completed:
        return Completed(self.status, b"", b"", 1.0)


@pytest.mark.parametrize(
    ("killed_at", "status", "results", "processes"),
    [
        ((), 0, [1, 2, 3], 1),
        ((3,), 137, [1, 2, 3], 2),
        ((1,), 137, [1, 2, 3], 2),
        ((3, 5), 137, [1, 2], 2),  # killed again
        ((2,), 0, [1], 1),  # ended by itself
    ],
)
def test_a_world_that_somebody_has_killed_is_begun_again_once(
    killed_at: tuple[int, ...], status: int, results: list[int], processes: int
) -> None:
    async def begin() -> Any:
        return CountingProcess(killed_at, status), "s"

    async def call() -> list[int]:
        world = CalledWorld(begin, await begin(), 60)
        found = []
        with contextlib.suppress(BrokenWorldError):
            for _ in range(3):
                found += (await world.call([]))["results"]
        return found

    CountingProcess.made.clear()
    assert asyncio.run(call()) == results
    assert len(CountingProcess.made) == processes


def test_a_question_of_one_turn_is_asked_once() -> None:
    policy = Policy(called(area={"base": 10}))
    asked = {"input": user("How large?"), "tools": []}
    task = Task(0, 0, {"bfcl": {"functions": []}, "responses_create_params": asked})
    episode = asyncio.run(BfclAgent(BfclAgentOptions()).run(task, policy))
    assert policy.asked == [asked]
    assert said_in(episode.response) == [{"area": '{"base": 10}'}]


@pytest.mark.parametrize(("arguments", "text"), [({"a": 1}, '{"a": 1}'), (None, ""), ('{"a":1}', '{"a":1}')])
def test_arguments_are_text_whatever_a_server_sends(arguments: Any, text: str) -> None:
    item = {"type": "function_call", "name": "f", "arguments": arguments}
    assert said_in({"output": [item]}) == [{"f": text}]


@pytest.mark.parametrize("line", [b"[" * 100_000, b"5", b"{}", b"\xff", b'{"secret": 1}'])
def test_what_the_code_of_a_model_prints_is_no_answer(line: bytes) -> None:
    assert _answer(line, "word") is None
