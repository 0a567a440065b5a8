"""Conversations whose user follows a script: what is sent, what is recorded, and what is shown of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.judges import saying

from nemo_gym.agents.registry import load_agent
from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data.conversations import turns_of
from nemo_gym.rollouts.output.result_rows import Answer
from nemo_gym.rollouts.run_config.schema import BenchmarkConfig
from nemo_gym.schema import check_model
from nemo_gym.types import Episode, RolloutFailedError, Row, Task, conversation_of_rollout
from nemo_gym.verifiers.registry import load_verifier

SYSTEM = {"role": "system", "content": "Be brief."}


def user(text: str) -> Row:
    return {"role": "user", "content": text}


def assistant(text: str) -> Row:
    return {"role": "assistant", "content": text}


def answer(text: str, **more: Any) -> Row:
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": f"so {text}"}]}
    said = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    usage = {"input_tokens": 10, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}
    return {"output": [thought, said], "usage": usage, **more}


class Model:
    """Gives answers in order, and keeps what it was asked."""

    def __init__(self, *answers: Row) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, Any]] = []

    async def respond(self, params: Mapping[str, Any]) -> Row:
        self.asked.append(params)
        return self.answers.pop(0)


def task() -> Task:
    params = {"input": [SYSTEM, user("1 + 1?")], "temperature": 0}
    return Task(0, 0, {"turns": ["1 + 1?", "And 2 + 2?"], "responses_create_params": params})


def played(model: Any) -> Episode:
    return asyncio.run(load_agent({"type": "multi_turn", "field": "turns"}).run(task(), model))


def test_each_thing_is_said_once_the_one_before_is_answered_and_all_of_it_is_recorded() -> None:
    model = Model(answer("2"), answer("4"))
    episode = played(model)
    assert [asked["input"] for asked in model.asked] == [
        [SYSTEM, user("1 + 1?")],
        [SYSTEM, user("1 + 1?"), assistant("2"), user("And 2 + 2?")],
    ]
    assert [asked["temperature"] for asked in model.asked] == [0, 0]
    assert (episode.text, episode.turns, episode.end) == ("4", 2, "completed")
    whole = [SYSTEM, user("1 + 1?"), assistant("2"), user("And 2 + 2?"), assistant("4")]
    assert episode.fields == {
        "conversation": whole,
        "turn_ends": ["completed"] * 2,
        "turn_thoughts": ["so 2"],
    }
    usage = episode.response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (20, 4)
    assert usage["output_tokens_details"] == {"reasoning_tokens": 2}
    stored = Answer.of(task(), episode, latency_ms=1.0, ended_at=0.0)
    again = Answer.of_row(stored.ungraded())
    assert conversation_of_rollout(again.to_task(0, 0), again.to_episode()) == whole


def test_an_answer_that_did_not_end_well_is_the_end_of_the_conversation() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    episode = played(Model(answer("2", **cut)))
    assert (episode.turns, episode.end) == (1, "max_output_tokens")
    with pytest.raises(RolloutFailedError, match="answer says failed: out of memory"):
        played(Model(answer("2"), {"status": "failed", "error": {"message": "out of memory"}, "output": []}))


def test_a_judge_reads_the_whole_conversation_also_of_one_turn() -> None:
    judge = saying("Score: 10", "Score: 1")
    spec = {"type": "judge", "prompt": "{conversation}\n\nLast: {answer}"}
    verifier = load_verifier(spec, {"judge": judge})
    assert verifier.check_row({"turns": []}) is None
    assert asyncio.run(verifier.verify(task(), played(Model(answer("2"), answer("4"))))).reward == 1.0
    assert asyncio.run(verifier.verify(task(), Episode(answer("3")))).reward == 0.0
    texts = [asked["input"][-1]["content"] for asked in judge.requests]
    assert texts == [
        "System: Be brief.\n\nUser: 1 + 1?\n\nAssistant: 2\n\nUser: And 2 + 2?\n\nAssistant: 4\n\nLast: 4",
        "System: Be brief.\n\nUser: 1 + 1?\n\nAssistant: 3\n\nLast: 3",
    ]


def benchmark(prompt: Row, **more: Any) -> BenchmarkConfig:
    whole = {"name": "talks", "datasets": {}, "prompt": prompt, "verifier": {"type": "match"}, **more}
    return check_model(BenchmarkConfig, whole, where="it")


def test_the_prompt_sets_the_agent() -> None:
    assert benchmark({"turns": "said"}).agent == {"type": "multi_turn", "field": "said"}
    again = benchmark({"turns": "said"}, agent={"type": "multi_turn", "field": "said"})
    assert again == benchmark({"turns": "said"})
    with_tools = benchmark({"turns": "said"}, agent={"type": "tools", "tools": []})
    assert with_tools.agent == {"type": "tools", "tools": [], "field": "said"}


@pytest.mark.parametrize(
    ("prompt", "more", "sentence"),
    [
        ({"turns": "said", "user": "{x}"}, {}, "one of them"),
        ({"turns": "said", "images": ["picture"]}, {}, "has turns, to which images cannot"),
        ({"turns": "said"}, {"agent": {"type": "loop"}}, "leave agent out"),
        ({"user": "{x}"}, {"agent": {"type": "multi_turn", "field": "said"}}, "prompt.turns is played by"),
        ({"user": "{x}"}, {"agent": {"type": "tools", "field": "said"}}, "prompt.turns is played by"),
    ],
)
def test_what_cannot_be_played_is_refused(prompt: Row, more: Row, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        benchmark(prompt, **more)


@pytest.mark.parametrize(
    ("row", "phrase"),
    [
        ({}, "the field said must hold what the user says, a list of texts"),
        ({"said": []}, "the field said must hold"),
        ({"said": "1 + 1?"}, "the field said must hold"),
        ({"said": ["1 + 1?", " "]}, "turn 2 of said must be a text that says something"),
        ({"said": [{"role": "system", "content": "Be brief."}]}, "turn 1 of said must be a text"),
        ({"said": [{"role": "assistant", "content": "2"}]}, "all in it are answers"),
    ],
)
def test_rows_without_things_to_say_are_refused(row: Row, phrase: str) -> None:
    with pytest.raises(DataError, match=phrase):
        turns_of(row, "said")
