"""Datasets: every row is checked, and the first that is not right is named by file and line."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from nemo_engines import rewards
from nemo_engines.data import rows
from nemo_engines.errors import BadSpecError, TrainerError, TrainingDataError
from nemo_engines.rewards import ROW, Rewards
from nemo_gym.errors import DataError as GymDataError
from nemo_gym.rollouts.data import dataset
from nemo_gym.types import Verdict

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
            "is not JSON: Expecting property name enclosed in double quotes at column 2",
        ),
        (rows.chat, [1], "must be an object in braces, not a list"),
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
        (
            rows.prompt_completion,
            '{"prompt": "a", "completion": "b", "completion": "c"}',
            "has the key 'completion' more than once in one object; leave all but one out",
        ),
        (
            rows.chat,
            {"messages": [ASK, SAY], "tools": '[{"type": "function", "type": "function"}]'},
            (
                "'tools' must be a list of objects, or JSON text of one: "
                "has the key 'type' more than once in one object; leave all but one out"
            ),
        ),
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
    with pytest.raises(TrainingDataError) as caught:
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
    made = Rewards(
        {
            "benchmark": {
                "prompt": {"user": "{question} Number!"},
                "verifier": {"type": "match", "mode": "numeric"},
            }
        }
    )
    row = made.shape({"question": "7 + 5?", "expected_answer": 12})
    assert row["prompt"] == [{"role": "user", "content": "7 + 5? Number!"}]
    assert made.grade([row[ROW]] * 3, ["it is 12", "13", ""], cut=[False, True, False]) == [1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="'expected_answer' is not one number"):
        made.shape({"question": "x", "expected_answer": "twelve"})


def test_rewards_read_columns_and_templates_as_an_evaluation_does() -> None:
    benchmark = {
        "fields": {"question": "q", "expected_answer": "gold.value"},
        "prompt": {"user": "{{ question | upper }}", "syntax": "jinja2"},
        "verifier": {"type": "match"},
    }
    made = Rewards({"benchmark": benchmark})
    row = made.shape({"q": "a or b?", "gold": {"value": "b"}})
    assert row["prompt"] == [{"role": "user", "content": "A OR B?"}]
    assert made.grade([row[ROW]], ["b"], cut=[False]) == [1.0]
    with pytest.raises(ValueError, match=r"benchmark.fields takes expected_answer from gold.value"):
        made.shape({"q": "a or b?"})


def test_rewards_letter_the_choices_of_a_row() -> None:
    benchmark = {
        "choices": {"texts": "endings", "right": "label"},
        "prompt": {"user": "{ctx}\n{options_text}"},
        "verifier": {"type": "multiple_choice"},
    }
    made = Rewards({"benchmark": benchmark})
    row = made.shape({"ctx": "He", "endings": ["runs", "sits"], "label": "1"})
    assert row["prompt"] == [{"role": "user", "content": "He\nA. runs\nB. sits"}]
    assert made.grade([row[ROW]], ["\\boxed{B}"], cut=[False]) == [1.0]


@pytest.mark.parametrize("name", ["conversation", "examples", "images", "tools"])
def test_rewards_refuse_what_training_does_not_put_into_a_prompt(name: str) -> None:
    prompt = {"user": "{question}", name: ["x"]}
    with pytest.raises(BadSpecError, match=rf"rewards\.prompt\.{name} is not supported in training"):
        Rewards({"benchmark": {"prompt": prompt, "verifier": {"type": "match"}}})


def test_rewards_grade_what_an_evaluation_grades() -> None:
    """Whole answers without their thoughts, unless the benchmark says otherwise."""
    benchmark = {"prompt": {"user": "{question}"}, "verifier": {"type": "match", "mode": "numeric"}}
    answers = ["<think>99</think>12", "12", "12</think>13", "<think>12"]
    cut = [False, True, False, False]
    made = Rewards({"benchmark": benchmark})
    row = made.shape({"question": "7 + 5?", "expected_answer": 12})[ROW]
    assert made.grade([row] * 4, answers, cut=cut) == [1.0, 0.0, 0.0, 0.0]
    more = {"graded_ends": ["max_output_tokens"], "grade_reasoning": True}
    assert Rewards({"benchmark": benchmark | more}).grade([row] * 4, answers, cut=cut) == [1.0, 1.0, 0.0, 1.0]
    with pytest.raises(BadSpecError, match=r"rewards\.graded_ends must be a list of completed, "):
        Rewards({"benchmark": benchmark | {"graded_ends": ["length"]}})


def test_a_verifier_that_nobody_knows_is_refused_with_its_place() -> None:
    with pytest.raises(BadSpecError, match=r"rewards\.verifier"):
        Rewards({"verifier": {"type": "nonesuch"}})


@pytest.mark.parametrize(
    ("shape", "row", "message"),
    [
        (rows.chat, '{"messages": ' + "[" * 9999 + "]" * 9999 + "}", "its brackets are too deep"),
        (rows.chat, '{"messages": [{"role": "user", "content": "\\ud800"}]}', "holds half of a character"),
        (rows.chat, {"messages": [ASK, SAY], "tools": "search"}, "'tools' must be a list of objects"),
        (
            rows.chat,
            {"messages": [ASK, {**SAY, "tool_calls": [1]}]},
            r"'messages\[1\].tool_calls' must be a list of objects",
        ),
        (
            rows.prompt_completion,
            {"prompt": [ASK], "completion": [SAY]},
            "'prompt' is a list of messages, and in line 1 it is a text; write all rows alike",
        ),
        (
            rows.chat,
            '{"messages": [{"role": "assistant", "content": "b", "n": 1' + "0" * 30 + "}]}",
            "holds the whole number 10+, which has more than 64 bits; write it as text, in quotes",
        ),
    ],
)
def test_what_only_the_library_would_stumble_over_is_named_too(
    tmp_path: Path, shape: rows.Shape, row: object, message: str
) -> None:
    good = {"messages": [{**ASK, "name": "ann"}, SAY], "prompt": "a", "completion": "b"}
    file = write(tmp_path / "data.jsonl", good, row)
    with pytest.raises(TrainingDataError, match=f"data.jsonl, line 2: .*{message}"):
        rows.read_dataset(file, "training", shape)


def test_rows_that_are_not_alike_are_read_where_no_table_is_made_of_them(tmp_path: Path) -> None:
    other = {"prompt": [ASK], "completion": [SAY]}
    file = write(tmp_path / "data.jsonl", {"prompt": "a", "completion": "b"}, other)
    assert len(rows.read_dataset(file, "training", rows.prompt_completion, alike=False).rows) == 2


def test_a_pipe_is_no_file_with_rows(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.jsonl")
    with pytest.raises(BadSpecError, match=r"has no .jsonl file; it must have train.jsonl"):
        rows.dataset_file(tmp_path, "training")


class Careless:
    """A verifier of somebody who did not think of everything."""

    def __init__(self, reward: float) -> None:
        self.reward = reward

    def check_row(self, row: dict[str, Any]) -> str | None:
        return None if row["question"] else "is empty"

    async def verify(self, _task: object, _episode: object) -> Verdict:
        return Verdict(1 / self.reward if self.reward <= 0 else self.reward)


def test_what_a_verifier_does_wrong_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Careless(0)
    monkeypatch.setattr(rewards, "load_verifier", lambda *_args, **_options: made)
    graded = Rewards({"benchmark": {"prompt": {"user": "{question}"}, "verifier": {"type": "careless"}}})
    with pytest.raises(ValueError, match=r"the verifier cannot check it: KeyError: 'question'"):
        graded.shape({"answer": "x"})
    row = graded.shape({"question": "x"})[ROW]
    with pytest.raises(TrainerError, match=r"verifier failed on the answer 'a': ZeroDivisionError"):
        graded.grade([row], ["a"], cut=[False])
    made.reward = math.nan
    with pytest.raises(TrainerError, match=r"gave the answer 'a' the reward nan"):
        graded.grade([row], ["a"], cut=[False])


@pytest.mark.parametrize(
    "asked", ["text", {"input": [{"content": "x"}]}, {"input": ["x"]}, {"input": []}, [1]]
)
def test_a_row_that_asks_in_no_known_way_is_refused(asked: object) -> None:
    made = Rewards({"verifier": {"type": "match"}})
    with pytest.raises(ValueError, match="input"):
        made.shape({"expected_answer": "x", "responses_create_params": asked})


FILES = {
    "bom_crlf": b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b", "n": 18446744073709551615}\r\n',
    "numbers": b'{"text": "a", "n": [0.1234567890123456789, 1E5, -0.0, 1e-400, -9223372036854775808]}\n',
    "separators": '{"text": "a\u2028b\x85c"}\n'.encode(),
    "large": b'{"text": "a", "n": 123456789012345678901234567890}\n',
    "nan": b'{"text": "a"}\n{"text": "b", "n": NaN}\n',
    "utf16": '{"text": "a"}\n'.encode("utf-16"),
    "latin1": '{"text": "caf\u00e9"}\n'.encode("latin-1"),
    "two": b'{"text": "a"}{"text": "b"}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_training_and_evaluation_read_the_same_or_refuse_in_the_same_words(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.jsonl"
    file.write_bytes(FILES[name])
    found: list[object] = []
    for read in (
        lambda: list(rows.read_dataset(file, "training", lambda row: row).rows),
        lambda: list(dataset.read_rows(file)),
    ):
        try:
            found.append(repr(read()))
        except (TrainingDataError, GymDataError) as error:
            found.append(str(error).removeprefix(str(file)).lstrip(",:").removeprefix(" line ").rstrip("."))
    learned, asked = found
    assert learned == asked


def test_an_array_is_read_by_an_evaluation_and_refused_by_a_training_with_the_command_that_makes_lines(
    tmp_path: Path,
) -> None:
    file = tmp_path / "train.jsonl"
    file.write_bytes(b'[{"text": "a", "n": 18446744073709551615}]')
    assert list(dataset.read_rows(file)) == [{"text": "a", "n": 18446744073709551615}]
    with pytest.raises(TrainingDataError, match=r"one JSON array of 1 object; .*: jq -c '\.\[\]'"):
        rows.read_dataset(file, "training", lambda row: row)
