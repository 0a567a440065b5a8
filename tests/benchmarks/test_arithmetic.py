from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.composition import parse_overrides
from nemo_gym.rollouts.data.dataset import check_rows, materialize, read_rows
from nemo_gym.rollouts.run_config.catalog import shipped_root
from nemo_gym.rollouts.run_config.schema import load_run_config
from nemo_gym.verifiers.match import MatchVerifier
from nemo_gym.verifiers.multiple_choice import MultipleChoiceVerifier
from nemo_gym.verifiers.registry import load_verifier

SCRIPT = shipped_root() / "benchmarks/arithmetic/prepare.py"


@pytest.fixture(scope="module")
def script() -> Callable[..., None]:
    spec = importlib.util.spec_from_file_location("arithmetic_prepare", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.prepare  # type: ignore[no-any-return]


def rows(script: Callable[..., None], path: Path, **arguments: Any) -> list[dict[str, Any]]:
    script(path, **arguments)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(
    script: Callable[..., None], tmp_path: Path
) -> None:
    made = []
    for seed in (1, 1, 2):
        script(tmp_path / "a.jsonl", seed=seed, num_tasks=50, choices=4, operators=["+", "-", "*"], digits=2)
        made.append((tmp_path / "a.jsonl").read_bytes())
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("sign", ["+", "-", "*"])
def test_answers_are_right_and_operands_have_as_many_digits_as_asked(
    script: Callable[..., None], tmp_path: Path, digits: int, sign: str
) -> None:
    for row in rows(script, tmp_path / "a.jsonl", digits=digits, operators=[sign], num_tasks=200):
        left, seen, right = row["question"].removeprefix("What is ").removesuffix("?").split()
        assert seen == sign
        assert len(left) == len(right) == digits
        expected = {"+": int(left) + int(right), "-": int(left) - int(right), "*": int(left) * int(right)}[
            sign
        ]
        assert row["expected_answer"] == str(expected)
        assert expected >= 0


@pytest.mark.parametrize(("sign", "distinct"), [("+", 100), ("*", 100), ("-", 55)])
def test_every_question_is_asked_once_before_any_comes_again(
    script: Callable[..., None], tmp_path: Path, sign: str, distinct: int
) -> None:
    questions = [
        row["question"] for row in rows(script, tmp_path / "a.jsonl", num_tasks=250, operators=[sign])
    ]
    assert len(questions) == 250
    for start in range(0, 250 - distinct, distinct):
        assert len(set(questions[start : start + distinct])) == distinct


def test_options_are_distinct_numbers_with_the_right_one_at_its_letter(
    script: Callable[..., None], tmp_path: Path
) -> None:
    made = rows(script, tmp_path / "a.jsonl", num_tasks=100, choices=4)
    for row in made:
        options = {letter: text for option in row["options"] for letter, text in option.items()}
        left, _, right = row["question"].removeprefix("What is ").removesuffix("?").split()
        assert list(options) == ["A", "B", "C", "D"]
        assert len(set(options.values())) == 4
        assert options[row["expected_answer"]] == str(int(left) + int(right))
    letters = [row["expected_answer"] for row in made]
    assert all(10 < letters.count(letter) < 45 for letter in "ABCD")
    values = [sorted(int(t) for o in row["options"] for t in o.values()) for row in made]
    ranks = [
        value.index(
            int(next(o[row["expected_answer"]] for o in row["options"] if row["expected_answer"] in o))
        )
        for value, row in zip(values, made, strict=True)
    ]
    assert all(ranks.count(rank) > 5 for rank in range(4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_tasks": 0}, "num_tasks must be a whole number from 1"),
        ({"num_tasks": "ten"}, "num_tasks must be"),
        ({"num_tasks": True}, "num_tasks must be"),
        ({"digits": 10}, "digits must be a whole number from 1 to 9"),
        ({"seed": -1}, "seed must be"),
        ({"choices": 1}, "choices must be a whole number from 2 to 10"),
        ({"operators": ["/"]}, "operators must be a list of some of"),
        ({"operators": "+"}, "operators must be a list"),
        ({"operators": []}, "operators must be a list"),
    ],
)
def test_a_wrong_argument_is_named(
    script: Callable[..., None], tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        script(tmp_path / "a.jsonl", **arguments)
    assert not (tmp_path / "a.jsonl").exists()


def planned(script: Callable[..., None], name: str, path: Path, **arguments: Any) -> tuple[Any, list[Any]]:
    loaded = load_run_config(
        [], name, parse_overrides([f"input_jsonl_fpath={path}"]), search_dirs=[], cwd=path.parent
    )
    config = loaded.config
    script(path, **config.prepare_script_args, **arguments)
    verifier = load_verifier(config.benchmark.verifier, {})
    assert check_rows(config, path, verifier).num_tasks == arguments.get("num_tasks", 100)
    return verifier.inner, [json.loads(line) for line in materialize(config, read_rows(path))]


def test_the_free_answer_benchmark_grades_what_a_small_model_says(
    script: Callable[..., None], tmp_path: Path
) -> None:
    verifier, made = planned(script, "arithmetic", tmp_path / "a.jsonl", num_tasks=40)
    assert isinstance(verifier, MatchVerifier)
    params = made[0]["responses_create_params"]
    assert params["input"][0]["content"] == f"{made[0]['question']} Answer with the number only."
    assert (params["max_output_tokens"], params["temperature"]) == (8, 0)
    assert verifier.grade("7 + 5 = 12", "12").reward == 1
    assert verifier.grade("The answer is 3.", "6").reward == 0


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The correct answer is C: 12", "C"),
        ("C", "C"),
        ("**C**", "C"),
        ("C: 10\nD: 11", "C"),
        ("First I thought the answer is A.\nAnswer: C", "C"),
        ("7 + 5 = 12", None),
        ("The answer is a number.", None),
    ],
)
def test_the_multiple_choice_benchmark_understands_what_a_small_model_says(
    script: Callable[..., None], tmp_path: Path, text: str, letter: str | None
) -> None:
    verifier, made = planned(script, "arithmetic_mcq", tmp_path / "a.jsonl")
    assert isinstance(verifier, MultipleChoiceVerifier)
    assert made[0]["responses_create_params"]["input"][0]["content"] == (
        f"Question: {made[0]['problem']}\nWhich letter is right? Answer:"
    )
    assert verifier.grade(text, made[0]).extracted_answer == letter
