"""Datasets: every row is checked, and the first that is not right is named by file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_engines import rows
from nemo_engines.errors import BadSpecError, DataError
from nemo_engines.rewards import ROW, Rewards

ASK = {"role": "user", "content": "a?"}
SAY = {"role": "assistant", "content": "b"}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("shape", "row", "message"),
    [
        (
            rows.chat,
            "{",
            "is not JSON: Expecting property name enclosed in double quotes: line 2 column 1 (char 2)",
        ),
        (rows.chat, [1], "must be an object"),
        (rows.chat, {"text": "x"}, "lacks 'messages'"),
        (
            rows.chat,
            {"messages": [ASK]},
            "'messages' has no message of the role assistant, so there is nothing to learn",
        ),
        (rows.chat, {"messages": [ASK, {"role": "assistant"}]}, "'messages[1]' must have a text as content"),
        (rows.prompt_completion, {"prompt": "a"}, "lacks 'completion'"),
        (
            rows.prompt_completion,
            {"prompt": "a", "completion": " "},
            "'completion' must be a text that is not empty",
        ),
        (
            rows.prompt_completion,
            {"prompt": [ASK], "completion": "b"},
            "'prompt' and 'completion' must be all texts or all lists of messages",
        ),
        (rows.preference, {"prompt": "a", "chosen": "b", "rejected": None}, "lacks 'rejected'"),
        (rows.text_shape("body"), {"text": "x"}, "lacks 'body'"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(
    tmp_path: Path, shape: rows.Shape, row: object, message: str
) -> None:
    good: dict[str, Any] = {
        "messages": [ASK, SAY],
        "prompt": "a",
        "completion": "b",
        "chosen": "b",
        "rejected": "c",
        "body": "x",
    }
    file = write(tmp_path / "data.jsonl", good, "", row)
    with pytest.raises(DataError) as caught:
        rows.read_dataset(file, "training", shape)
    assert str(caught.value) == f"{file}, line 3: {message}"


def test_a_folder_has_its_file_found(tmp_path: Path) -> None:
    write(tmp_path / "validation.jsonl", {"text": "v"})
    train = write(tmp_path / "train.jsonl", {"text": "t"})
    assert rows.dataset_file(tmp_path, "training") == train
    assert rows.dataset_file(tmp_path, "validation").name == "validation.jsonl"
    train.rename(tmp_path / "other.jsonl")
    with pytest.raises(BadSpecError, match=r"has other.jsonl, validation.jsonl; it must have train.jsonl"):
        rows.dataset_file(tmp_path, "training")


def test_a_template_puts_what_is_learned_last() -> None:
    shape = rows.template_shape("Q: {question}\nA: {answer}!")
    assert shape({"question": "x", "answer": "y"}) == {"prompt": "Q: x\nA: ", "completion": "y!"}
    with pytest.raises(ValueError, match=r"lacks 'answer', which data.prompt_template needs"):
        shape({"question": "x"})


def test_other_data_has_another_identity(tmp_path: Path) -> None:
    shape = rows.text_shape("text")
    first = rows.read_dataset(write(tmp_path / "a", {"text": "t"}), "training", shape)
    second = rows.read_dataset(write(tmp_path / "b", {"text": "u"}), "training", shape)
    assert first.identity != second.identity
    assert first.identity.endswith(" (1 rows)")


def test_rewards_ask_as_the_benchmark_does_and_grade_with_its_verifier() -> None:
    rewards = Rewards(
        {
            "benchmark": {
                "prompt": {"user": "{question} Number!"},
                "verifier": {"type": "match", "mode": "numeric"},
            }
        }
    )
    row = rewards.shape({"question": "7 + 5?", "expected_answer": 12})
    assert row["prompt"] == [{"role": "user", "content": "7 + 5? Number!"}]
    assert rewards.grade([row[ROW]] * 3, ["it is 12", "13", ""], cut=[False, True, False]) == [1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="'expected_answer' is not one number"):
        rewards.shape({"question": "x", "expected_answer": "twelve"})


def test_a_verifier_that_nobody_knows_is_refused_with_its_place() -> None:
    with pytest.raises(BadSpecError, match=r"rewards\.verifier"):
        Rewards({"verifier": {"type": "nonesuch"}})
