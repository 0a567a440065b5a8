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
from nemo_gym.rollouts.run_config.fields import row_mapper
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
            "1 + 1?\n\nA. 1\nB. 2\nC. 3\nAnswer with the letter of the right option only.",
            "B",
            "1",
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


def row_of(guess: Guess, row: Row) -> Row:
    """The row with the fields that prompt and verifier use."""
    config = RunConfig.model_validate({"benchmark": guess.benchmark})
    choices = config.benchmark.choices
    return row_mapper(config.benchmark.fields, None if choices is None else choices.model_dump())(row)


LETTERED = "\n\nA. x\nB. y\nAnswer with the letter of the right option only."


@pytest.mark.parametrize(
    ("rows", "asked", "answers"),
    [
        pytest.param(
            [{"ind": n, "ctx": "He", "ctx_b": "", "endings": ["x", "y"], "label": str(n)} for n in (1, 0)],
            "He" + LETTERED,
            ["B", "A"],
            id="HellaSwag",
        ),
        pytest.param(
            [{"sentence": "It _.", "option1": "x", "option2": "y", "answer": n} for n in ("1", "2")],
            "It _." + LETTERED,
            ["A", "B"],
            id="WinoGrande",
        ),
        pytest.param(
            [{"goal": "Go", "sol1": "x", "sol2": "y", "label": n} for n in (1, 1)],
            "Go" + LETTERED,
            ["B", "B"],
            id="PIQA",
        ),
        pytest.param(
            [{"article": "It is.", "question": "Is it?", "options": ["x", "y"], "answer": "B"}],
            "It is.\n\nIs it?" + LETTERED,
            ["B"],
            id="RACE",
        ),
        pytest.param(
            [{"question": "Is it?", "opa": "x", "opb": "y", "cop": n} for n in (1, 0)],
            "Is it?" + LETTERED,
            ["B", "A"],
            id="MedMCQA",
        ),
        pytest.param(
            [{"question": "Is it?", "choices": {"text": ["x", "y"], "label": [*"12"]}, "answerKey": "2"}],
            "Is it?" + LETTERED,
            ["B"],
            id="ARC by number",
        ),
        pytest.param(
            [{"question": "Is it?", "A": "x", "B": "y", "answer": "B"}],
            "Is it?" + LETTERED,
            ["B"],
            id="a table",
        ),
        pytest.param(
            [{"passage": "It is.", "question": "Is it?", "answer": True}],
            "It is.\n\nIs it?\n\nAnswer with yes or no.",
            [True],
            id="BoolQ",
        ),
        pytest.param(
            [{"question": "Who?", "answer": {"value": "Ann", "aliases": ["Ann", "A."]}}],
            "Who?",
            [["Ann", "A."]],
            id="TriviaQA",
        ),
        pytest.param(
            [{"context": "It is.", "question": "Who?", "answers": {"text": ["Ann"], "start": [0]}}],
            "It is.\n\nWho?",
            [["Ann"]],
            id="SQuAD",
        ),
    ],
)
def test_right_answers_of_published_data_are_found(
    tmp_path: Path, rows: list[Row], asked: str, answers: list[Any]
) -> None:
    guess = guess_benchmark(written(tmp_path, *rows))
    assert [row_of(guess, row)["expected_answer"] for row in rows] == answers
    first = answers[0]
    answer = "yes" if first is True else first[0] if isinstance(first, list) else first
    assert graded(guess, answer) == (asked, 1.0)
    assert graded(guess, "no, C")[1] == 0.0


@pytest.mark.parametrize(
    ("row", "asked", "right", "wrong"),
    [
        pytest.param(
            {"question": "Job of Plato?", "possible_answers": '["philosopher", "thinker"]'},
            "Job of Plato?",
            "Thinker",
            "cook",
            id="PopQA",
        ),
        pytest.param(
            {"messages": "[{'content': '1 + 1?', 'role': 'user'}]", "answer": "2"},
            "1 + 1?",
            "2",
            "3",
            id="chat, as pandas writes its CSV",
        ),
        pytest.param(
            {"question": "Who?", "answers": "{'text': array(['Ada'], dtype=object), 'start': array([3])}"},
            "Who?",
            "ada",
            "Bob",
            id="SQuAD, as pandas writes its CSV",
        ),
        pytest.param(
            {"prompt": "f(['b', 'a'])?", "answer": "['a', 'b']"},
            "f(['b', 'a'])?",
            "['a', 'b']",
            "a",
            id="a list that is the answer",
        ),
        pytest.param({"prompt": "[3, 1]", "answer": "[1, 3]"}, "[3, 1]", "[1, 3]", "1", id="a list is asked"),
    ],
)
def test_lists_in_a_column_are_read_where_that_is_meant(
    tmp_path: Path, row: Row, asked: str, right: str, wrong: str
) -> None:
    guess = guess_benchmark(written(tmp_path, row, row))
    assert graded(guess, right) == (asked, 1.0)
    assert graded(guess, wrong)[1] == 0.0


def test_a_column_that_holds_no_list_everywhere_is_refused_by_its_row(tmp_path: Path) -> None:
    good = {"question": "Job of Plato?", "possible_answers": '["philosopher"]'}
    guess = guess_benchmark(written(tmp_path, good))
    rows = written(tmp_path, good, {**good, "possible_answers": "philosopher"}, {"question": "Who?"})
    config = RunConfig.model_validate({"benchmark": guess.benchmark})
    with pytest.raises(DataError, match=r":2: benchmark.parse: the field possible_answers holds no list"):
        check_rows(config, rows, load_verifier(config.benchmark.verifier))
    rows = written(tmp_path, good, {"question": "Who?"})
    with pytest.raises(DataError, match=r":2: benchmark.parse names the field possible_answers, which"):
        check_rows(config, rows, load_verifier(config.benchmark.verifier))


def test_right_and_wrong_choices_in_columns_are_shuffled(tmp_path: Path) -> None:
    rows = [{"Question": str(n), "Correct Answer": "r", "Incorrect Answer 1": "x", "Incorrect Answer 2": "y"}
            for n in range(2)]  # fmt: skip
    guess = guess_benchmark(written(tmp_path, *rows))
    assert guess.benchmark["choices"] == {"texts": [*rows[0]][1:], "right": "Correct Answer", "shuffle": 0}
    assert "are wrong ones, shuffled" in guess.said["choices"]


def test_choices_with_two_meanings_are_not_guessed(tmp_path: Path) -> None:
    rows = [{"question": "x", "choices": ["1", "0"], "answer": "1"}]
    guess = guess_benchmark(written(tmp_path, *rows))
    assert "choices" not in guess.benchmark
    assert guess.unused == ["choices"]
    assert sentence(guess, Path("q.jsonl")).endswith("; not used: choices")


@pytest.mark.parametrize(
    ("row", "kind", "verifier"),
    [
        (
            {"prompt": "def f():", "test": "def check(c): assert c()", "entry_point": "f"},
            None,
            {"type": "code", "prompt_field": "prompt"},
        ),
        (
            {"text": "Write f.", "code": "f = 1", "test_list": ["assert f"]},
            "code",
            {"type": "code", "test_field": "test_list", "entry_point_field": None},
        ),
        ({"problem": "x", "solution": "So \\boxed{2}."}, None, {"type": "math"}),
        (
            {"question": "x", "choices": ["a", "b"], "answer": 1},
            "multiple_choice",
            {"type": "multiple_choice", "grading_mode": "lenient_answer_colon_md"},
        ),
        ({"problem": "x", "answer": "y"}, "judge", {"type": "judge"}),
    ],
)
def test_the_verifier_fits_the_rows(
    tmp_path: Path, row: Row, kind: str | None, verifier: dict[str, Any]
) -> None:
    guess = guess_benchmark(written(tmp_path, row), verifier=None if kind is None else {"type": kind})
    assert guess.benchmark["verifier"] == verifier


def test_solutions_with_a_box_are_no_whole_answers(tmp_path: Path) -> None:
    path = written(tmp_path, {"problem": "x", "solution": "So \\boxed{2}."})
    with pytest.raises(ConfigError, match=r"holds solutions with the answer in .boxed.}: --verifier math"):
        guess_benchmark(path, verifier={"type": "match"})


@pytest.mark.parametrize(
    ("row", "places"),
    [
        ({"problem": "x", "answer": "y"}, None),
        ({"prompt": "x"}, ("{question}", "{answer}")),
        ({"turns": ["a", "b"], "reference": ["c"]}, ("{conversation}", "{expected_answer}")),
        ({"turns": [{"content": "a"}]}, ("{conversation}", "{answer}")),
        ({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}, None),
    ],
)
def test_a_judge_is_asked_with_what_the_rows_have(
    tmp_path: Path, row: Row, places: tuple[str, ...] | None
) -> None:
    guess = guess_benchmark(written(tmp_path, row), verifier={"type": "judge"})
    prompt = guess.benchmark["verifier"].get("prompt", "")
    assert all(place in prompt for place in places or ())
    found = row_of(guess, row)
    assert "{question}" not in prompt or found["question"] == "x"
    said = next((name for name in ("turns", "conversations") if name in row), None)
    assert said is None or guess.benchmark["prompt"] == {"turns": said}


def test_a_function_of_ones_own_finds_right_answers_by_both_names(tmp_path: Path) -> None:
    row = {"question": "x", "answer": "2 #### 2"}
    guess = guess_benchmark(written(tmp_path, row), verifier={"type": "python"})
    assert row_of(guess, row) == {"question": "x", "answer": "2 #### 2", "expected_answer": "2 #### 2"}


def test_images_are_part_of_the_question(tmp_path: Path) -> None:
    row = {"question": "Colour?", "image_1": "https://h/a.png", "image_2": None, "answer": "red"}
    guess = guess_benchmark(written(tmp_path, row))
    assert guess.benchmark["prompt"] == {"user": "{question}", "images": ["image_1"]}
    assert guess.said["prompt.images"] == "the images are in image_1"


def test_images_stand_where_the_question_has_a_place_for_them(tmp_path: Path) -> None:
    row = {"question": "Is <image 1> red?", "image_1": "https://h/a.png", "answer": "yes"}
    guess = guess_benchmark(written(tmp_path, row))
    assert guess.benchmark["prompt"]["images_in_text"] is True
    talk = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Colour?"}]}]
    row = {"messages": talk, "images": ["https://h/a.png"], "answer": "red"}
    guess = guess_benchmark(written(tmp_path, row))
    assert guess.benchmark["prompt"] == {"conversation": "messages", "images": ["images"]}


def test_rows_with_their_own_requests_need_no_prompt(tmp_path: Path) -> None:
    row = {"responses_create_params": {"input": [{"role": "user", "content": "1 + 1?"}]}, "answer": "2"}
    assert graded(guess_benchmark(written(tmp_path, row)), "2") == ("1 + 1?", 1.0)


def test_one_row_that_differs_changes_the_guess(tmp_path: Path) -> None:
    rows = [{"question": "a", "answer": "2"}, {"question": "b", "answer": "two"}]
    guess = guess_benchmark(written(tmp_path, *rows))
    assert guess.benchmark["verifier"] == {"type": "match", "mode": "exact", "ignore_case": True}
    assert "an answer must be exactly that text" in sentence(guess, Path("q.jsonl"))


def test_fields_with_few_values_give_groups(tmp_path: Path) -> None:
    rows = [
        {"question": str(n), "answer": "2", "Topic": "ab"[n % 2], "level": n, "category": "x", "type": None}
        for n in range(6)
    ]
    guess = guess_benchmark(written(tmp_path, *rows))
    assert guess.benchmark["group_by"] == ["Topic"]
    assert guess.said["group_by"] == "Topic has few values, so each value gets a score of its own"
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


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]},
        {"conversations": [{"from": "human", "value": "1 + 1?"}, {"from": "gpt", "value": "2"}]},
    ],
)
def test_conversations_for_training_end_with_the_right_answer(tmp_path: Path, row: dict[str, Any]) -> None:
    guess = guess_benchmark(written(tmp_path, row))
    (name,) = row
    assert guess.benchmark["prompt"] == {"conversation": name, "ends_with_answer": True}
    assert graded(guess, "2")[1] == 1.0
    judged = guess_benchmark(written(tmp_path, row), verifier={"type": "judge"})
    assert "ends_with_answer" not in judged.benchmark["prompt"]
