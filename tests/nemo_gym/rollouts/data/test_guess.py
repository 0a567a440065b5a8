"""What is guessed of somebody's rows is right for data as it is published, is said, and runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data.dataset import check_rows, materialize, read_rows
from nemo_gym.rollouts.data.guess import Guess, guess_benchmark, name_of, sentence
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.types import Episode, Row, Task
from nemo_gym.verifiers.registry import load_verifier


def written(folder: Path, *rows: Row) -> Path:
    path = folder / "my questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def graded(guess: Guess, answer: str) -> tuple[Any, float | None]:
    """What the first row asks, and the grade of an answer, in the benchmark that was guessed."""
    config = RunConfig.model_validate({"benchmark": guess.benchmark})
    path = config.benchmark.datasets["benchmark"].jsonl_fpath
    assert path is not None
    verifier = load_verifier(config.benchmark.verifier)
    check_rows(config, path, verifier)
    row = json.loads(next(iter(materialize(config, read_rows(path)))))
    content = [{"type": "output_text", "text": answer}]
    response = {"output": [{"type": "message", "content": content}], "status": "completed"}
    verdict = asyncio.run(verifier.verify(Task(0, 0, row), Episode(response)))
    return row["responses_create_params"]["input"][-1]["content"], verdict.reward


@pytest.mark.parametrize(
    ("row", "asked", "right", "wrong"),
    [
        ({"question": "1 + 1?", "expected_answer": "2"}, "1 + 1?", "It is 2.", "3"),
        ({"prompt": "1 + 1?", "gold": 2}, "1 + 1?", "It is 2.", "3"),
        ({"Question": "Capital of Peru?", "Answer": "Lima"}, "Capital of Peru?", "lima", "It is Lima"),
        ({"The question": "x", "problem": "1 + 1?", "solution": "2"}, "1 + 1?", "2", "1"),
        ({"question": "1 + 1?", "answer": "1 and 1. #### 2"}, "1 + 1?", "#### 2", "3"),
        (
            {"question": "1 + 1?", "choices": ["1", "2", "3"], "answer": 1},
            "1 + 1?\n\n0. 1\n1. 2\n2. 3\nAnswer with the number of the right option only.",
            "1",
            "2",
        ),
        (
            {"question": "1 + 1?", "choices": ["1", "2", "3"], "answer": "B"},
            "1 + 1?\n\nA. 1\nB. 2\nC. 3\nAnswer with the letter of the right option only.",
            "I think the answer is (B).",
            "A. 1, not B",
        ),
        (
            {"question": "1 + 1?\nA: 1\nB: 2", "options": [{"A": "1"}, {"B": "2"}], "expected_answer": "B"},
            "1 + 1?\nA: 1\nB: 2",
            "Answer: B",
            "Answer: A",
        ),
        (
            {"question": "1 + 1?", "choices": {"text": ["1", "2"], "label": ["A", "B"]}, "answerKey": "B"},
            "1 + 1?\n\nA. 1\nB. 2\nAnswer with the letter of the right option only.",
            "B",
            "C",
        ),
        ({"instruction": "Add.", "input": "1 + 1", "output": "2"}, "Add.\n\n1 + 1", "2", "1"),
        ({"instruction": "Add 1 + 1.", "input": "", "output": "2"}, "Add 1 + 1.", "2", "1"),
        (
            {"context": "It is red.", "question": "Colour?", "answer": "red"},
            "It is red.\n\nColour?",
            "Red",
            "x",
        ),
        ({"input": [{"role": "user", "content": "1 + 1?"}], "ideal": "2"}, "1 + 1?", "2", "1"),
        ({"messages": [{"role": "user", "content": "1 + 1?"}], "target": "two"}, "1 + 1?", "two", "2"),
        ({"turns": ["1 + 1?", "And now?"], "reference": "two"}, "1 + 1?", "two", "2"),
    ],
)
def test_data_of_every_common_shape_is_asked_and_graded(
    tmp_path: Path, row: Row, asked: str, right: str, wrong: str
) -> None:
    guess = guess_benchmark(written(tmp_path, row, row))
    assert graded(guess, right) == (asked, 1.0)
    assert graded(guess, wrong) == (asked, 0.0)
    assert set(guess.said) >= {"prompt", "verifier"}
    assert guess.benchmark["name"] == "my-questions"


def test_rows_with_their_own_requests_need_no_prompt(tmp_path: Path) -> None:
    row = {"responses_create_params": {"input": [{"role": "user", "content": "1 + 1?"}]}, "answer": "2"}
    assert graded(guess_benchmark(written(tmp_path, row)), "2") == ("1 + 1?", 1.0)


def test_one_row_that_differs_changes_the_guess(tmp_path: Path) -> None:
    rows = [{"question": "a", "answer": "2"}, {"question": "b", "answer": "two"}]
    guess = guess_benchmark(written(tmp_path, *rows))
    assert guess.benchmark["verifier"] == {"type": "match", "mode": "exact", "ignore_case": True}
    assert "the whole answer must be that text" in sentence(guess, Path("q.jsonl"))


def test_fields_with_few_values_give_groups(tmp_path: Path) -> None:
    rows = [
        {"question": str(n), "answer": "2", "Topic": "ab"[n % 2], "level": n, "category": "x", "type": None}
        for n in range(6)
    ]
    guess = guess_benchmark(written(tmp_path, *rows))
    assert guess.benchmark["group_by"] == ["Topic"]
    assert guess.said["group_by"] == "Topic has few values"
    assert "group_by" not in guess_benchmark(written(tmp_path, *rows[:3])).benchmark


def test_what_is_given_is_not_guessed(tmp_path: Path) -> None:
    rows = [{"question": "a", "n": "2"}]
    given = {"type": "match", "mode": "exact", "answer_field": "n"}
    guess = guess_benchmark(written(tmp_path, *rows), verifier=given, asked=True)
    assert (guess.benchmark["verifier"], guess.said) == (given, {})
    assert guess_benchmark(written(tmp_path, *rows), verifier={"type": "other"}).benchmark["verifier"] == {
        "type": "other"
    }


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"a": "x", "answer": "2"},
            r"\(a, answer\) looks like a question; say how rows are asked: benchmark.p",
        ),
        (
            {"question": "x", "b": "2"},
            r"\(question, b\) looks like a right answer; name it: --verifier '{type",
        ),
        ({"question": "x", "answer": None}, "looks like a right answer"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for(tmp_path: Path, row: Row, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        guess_benchmark(written(tmp_path, row))
    with pytest.raises(DataError, match="holds no rows"):
        guess_benchmark(written(tmp_path))


@pytest.mark.parametrize(
    ("file", "name"),
    [("q.jsonl", "q"), ("a b.csv.gz", "a-b"), ("x.v2.parquet", "x.v2"), ("?.jsonl", "questions")],
)
def test_a_name_comes_from_the_file(file: str, name: str) -> None:
    assert name_of(Path(file)) == name
