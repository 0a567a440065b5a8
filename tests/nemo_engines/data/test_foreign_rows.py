"""Rows as other tools have them: refused with what to write instead, or taken as they are meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_engines import spec
from nemo_engines.data import rows
from nemo_engines.errors import TrainingDataError

ASK = {"role": "user", "content": "2 + 2?"}
GOOD = {"role": "assistant", "content": "4"}
BAD = {"role": "assistant", "content": "5"}
SHAREGPT = [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]


def read(tmp_path: Path, row: dict[str, Any], method: str = "sft", **data: Any) -> dict[str, Any]:
    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps(row) + "\n")
    given = {"engine": "trl", "method": method, "model": "m", "dataset": str(file), "output": "o"}
    return rows.read_for(spec.parse_spec({**given, "data": data}), file, "training").rows[0]


@pytest.mark.parametrize(
    ("method", "row", "problem"),
    [
        ("sft", {"conversations": SHAREGPT}, "for 'from' and 'value' (ShareGPT)"),
        ("sft", {"messages": SHAREGPT}, "for 'from' and 'value' (ShareGPT)"),
        ("sft", {"conversations": [ASK, GOOD]}, "lacks 'text'; write 'messages' for 'conversations'"),
        ("sft", {"Messages": [ASK, GOOD]}, "write 'messages' for 'Messages'"),
        (
            "sft",
            {"instruction": "add", "input": "", "output": "4"},
            "; write 'prompt' for 'instruction' and 'completion' for 'output'",
        ),
        (
            "sft",
            {"instruction": "add", "input": "2 + 2", "output": "4"},
            "'completion' for 'output', and put 'input' at the end of 'prompt'",
        ),
        (
            "sft",
            {"prompt": "2 + 2?", "response": "4"},
            "lacks 'completion'; write 'completion' for 'response'",
        ),
        (
            "sft",
            {"question": "q", "answer": "a"},
            "write 'prompt' for 'question' and 'completion' for 'answer'",
        ),
        ("sft", {"Text": "abc"}, "lacks 'text'; write 'text' for 'Text'"),
        ("sft", {"prompt": "q", "chosen": "a", "rejected": "b"}, "pairs of answers are for DPO"),
        (
            "sft",
            {"messages": [{"role": "human", "content": "q"}, {"role": "gpt", "content": "a"}]},
            "nothing to learn; its roles are 'human', 'gpt': write system, user, assistant",
        ),
        (
            "dpo",
            {"input": {"messages": [ASK]}, "preferred_output": [GOOD], "non_preferred_output": [BAD]},
            "write input.messages as 'prompt', and the two outputs as 'chosen' and 'rejected'",
        ),
        (
            "dpo",
            {"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q"},
            "what both answers begin",
        ),
        ("dpo", {"question": "q", "chosen": "a", "rejected": "b"}, "write 'prompt' for 'question'"),
        ("dpo", {"prompt": "q", "completion": "a", "label": True}, "(KTO) are not pairs"),
        ("dpo", {"prompt": "q", "chosen": GOOD, "rejected": BAD}, "put the message in 'chosen' into a list"),
    ],
)
def test_a_row_of_another_tool_is_refused_with_what_to_write(
    tmp_path: Path, method: str, row: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TrainingDataError) as caught:
        read(tmp_path, row, method)
    assert str(caught.value).startswith(f"{tmp_path / 'data.jsonl'}, line 1: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("method", "row", "problem"),
    [
        (
            "sft",
            {"messages": [ASK, GOOD], "system": "Be kind."},
            "'system' would not be seen; write it as the",
        ),
        ("sft", {"prompt": "q", "completion": "a", "system_prompt": "Be kind."}, "'system_prompt' would not"),
        ("dpo", {"prompt": "q", "chosen": "a", "rejected": "b", "system": "s"}, "'system' would not be seen"),
        ("sft", {"prompt": "q", "completion": "a", "history": [["x", "y"]]}, "'history' would not be seen"),
        (
            "sft",
            {"prompt": "q", "completion": "a", "label": False},
            "'label' false says that the answer is a",
        ),
        ("dpo", {"prompt": "q", "chosen": "a", "rejected": "a"}, "'chosen' and 'rejected' are the same"),
        ("sft", {"messages": [ASK, {**GOOD, "content": ""}]}, "'messages[1]' is an empty answer"),
        (
            "sft",
            {"messages": [ASK, {**GOOD, "content": " \n"}, ASK, GOOD]},
            "'messages[1]' is an empty answer; leave it out, or say 'weight': 0",
        ),
        (
            "sft",
            {"prompt": [ASK], "completion": [{**GOOD, "content": ""}]},
            "'completion[0]' is an empty answer",
        ),
    ],
)
def test_what_would_be_lost_or_learned_against_its_meaning_is_refused(
    tmp_path: Path, method: str, row: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TrainingDataError) as caught:
        read(tmp_path, row, method)
    assert problem in str(caught.value)


def test_a_system_message_that_is_there_may_be_named_beside_it(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be kind."}
    assert read(tmp_path, {"messages": [system, ASK, GOOD], "system": "Be kind."})["messages"][0] == system
    assert read(tmp_path, {"text": "abc", "system": "Be kind."}) == {"text": "abc"}
    assert read(tmp_path, {"prompt": "q", "completion": "a", "label": 0})["completion"] == "a"


def test_a_message_that_another_tool_does_not_train_on_is_not_learned(tmp_path: Path) -> None:
    row = {"messages": [ASK, {**BAD, "training": False}, ASK, {**GOOD, "training": True}]}
    assert read(tmp_path, row) == {"messages": [ASK, BAD, ASK, GOOD], "unlearned": [1]}
    empty = {"messages": [ASK, {**BAD, "content": "", "weight": 0}, ASK, GOOD]}
    assert read(tmp_path, empty)["unlearned"] == [1]


def test_a_template_has_something_to_learn_in_each_row(tmp_path: Path) -> None:
    template = "{instruction}\n{input}\n{output}"
    row = {"instruction": "add", "input": "", "output": "4"}
    assert read(tmp_path, row, prompt_template=template) == {"prompt": "add\n\n", "completion": "4"}
    with pytest.raises(TrainingDataError, match="'output' is empty, and it is what is to be learned"):
        read(tmp_path, {**row, "output": " "}, prompt_template=template)
