"""Choices of every published shape become the same lettered options, or the row is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from nemo_gym.errors import DataError
from nemo_gym.rollouts.run_config.choices import choice_mapper
from nemo_gym.rollouts.run_config.dataset_schema import ChoicesConfig


def lettered(row: dict[str, Any], **wanted: Any) -> tuple[str, str]:
    """The options as text, and the letter of the right one."""
    checked = ChoicesConfig.model_validate(wanted).model_dump()
    mapped = choice_mapper(checked)(row)
    assert mapped.keys() >= row.keys()
    assert [f"{k}. {v}" for option in mapped["options"] for k, v in option.items()] == mapped[
        "options_text"
    ].splitlines()
    return mapped["options_text"], mapped["expected_answer"]


ARC = {"text": ["x", "y", "z"], "label": ["A", "B", "C"]}


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        pytest.param({"choices": ["x", "y", "z"], "answer": 1}, {}, id="MMLU"),
        pytest.param({"options": ["x", "y", "z"], "answer": "B"}, {"texts": "options"}, id="MMLU-Pro"),
        pytest.param({"choices": ARC, "answer": "B"}, {}, id="ARC"),
        pytest.param(
            {"choices": {**ARC, "label": ["1", "2", "3"]}, "answer": "2"}, {}, id="ARC with numbers"
        ),
        pytest.param(
            {"choices": [{"text": t, "label": n} for t, n in zip("xyz", "ABC", strict=True)], "answer": "B"},
            {},
            id="ARC as it was first published",
        ),
        pytest.param(
            {"endings": ["x", "y", "z"], "label": "1"}, {"texts": "endings", "right": "label"}, id="HellaSwag"
        ),
        pytest.param(
            {"option1": "x", "option2": "y", "option3": "z", "answer": "2"},
            {"texts": ["option1", "option2", "option3"], "count_from": 1},
            id="WinoGrande",
        ),
        pytest.param(
            {"A": "x", "B": "y", "C": "z", "D": "", "answer": "B"},
            {"texts": ["A", "B", "C", "D"]},
            id="a table",
        ),
        pytest.param({"choices": '["x", "y", "z"]', "answer": "b"}, {}, id="JSON in a cell"),
        pytest.param({"choices": "['x', 'y', 'z']", "answer": "B"}, {}, id="MMMU"),
        pytest.param({"choices": "['x' 'y'\n 'z']", "answer": 1}, {}, id="MMLU, as pandas writes its CSV"),
        pytest.param(
            {
                "choices": "{'text': array(['x', 'y', 'z'], dtype=object), 'label': array(['A', 'B', 'C'])}",
                "answer": "B",
            },
            {},
            id="ARC, as pandas writes its CSV",
        ),
        pytest.param({"choices": [{"A": "x"}, {"B": "y"}, {"C": "z"}], "answer": "B"}, {}, id="ours"),
        pytest.param({"choices": {"A": "x", "B": "y", "C": "z"}, "answer": "B"}, {}, id="MedQA"),
        pytest.param({"choices": ["x", "y", "z"], "answer": "y"}, {}, id="CommonsenseQA as text"),
        pytest.param({"choices": ["x", "y", "z"], "answer": 1.0}, {}, id="a number beside gaps"),
    ],
)
def test_all_shapes_become_the_same_options(row: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert lettered(row, **{"texts": "choices", "right": "answer", **wanted}) == ("A. x\nB. y\nC. z", "B")


def test_columns_with_the_right_choice_are_shuffled_the_same_for_the_same_seed() -> None:
    rows = [
        {"Correct Answer": str(n), "Incorrect Answer 1": "x", "Incorrect Answer 2": "y"} for n in range(40)
    ]
    wanted: dict[str, Any] = {"texts": [*rows[0]], "right": "Correct Answer"}
    found = [lettered(row, **wanted, shuffle=1) for row in rows]
    assert found == [lettered(row, **wanted, shuffle=1) for row in rows]
    assert found != [lettered(row, **wanted, shuffle=2) for row in rows]
    assert {letter for _, letter in found} == {"A", "B", "C"}
    for row, (text, letter) in zip(rows, found, strict=True):
        assert f"{letter}. {row['Correct Answer']}" in text.splitlines()
    with pytest.raises(ValidationError, match="needs shuffle, a seed: the right choice is the field"):
        lettered(rows[0], **wanted)


@pytest.mark.parametrize(
    ("row", "wanted", "said"),
    [
        ({"answer": 1}, {}, "needs the field choices, which this row lacks; it has answer"),
        ({"choices": "x, y", "answer": 1}, {}, "the field choices holds no choices (a list of texts"),
        ({"choices": ["x", None], "answer": 1}, {}, "the field choices holds no choices"),
        ({"choices": ["x", "y"], "answer": True}, {}, "must be a text or a number, not True"),
        ({"choices": ["x", "y"], "answer": None}, {}, "must be a text or a number, not None"),
        (
            {"choices": ["x", "y"], "answer": 2},
            {},
            "answer, 2, is not one of the 2 choices: not a label (A, B)",
        ),
        ({"choices": ["x", "y"], "answer": 0}, {"count_from": 1}, "not a number from 1"),
        (
            {"choices": ["4", "0"], "answer": "0"},
            {},
            "one choice as number and another as text; say which is",
        ),
        ({"choices": ["B", "A"], "answer": "A"}, {}, "right_as=label"),
        ({"a": "x", "b": "", "answer": "B"}, {"texts": ["a", "b"]}, "the right choice is empty in this row"),
        (
            {"choices": [str(n) for n in range(27)], "answer": "1"},
            {"right_as": "text"},
            "has 27 choices, more than",
        ),
    ],
)
def test_what_cannot_be_understood_in_one_way_is_refused(
    row: dict[str, Any], wanted: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError, match=re.escape(said)):
        lettered(row, **{"texts": "choices", "right": "answer", **wanted})


def test_a_value_with_two_meanings_is_read_as_it_is_said() -> None:
    row = {"choices": ["4", "0"], "answer": "0"}
    found = {
        way: lettered(row, texts="choices", right="answer", right_as=way)[1] for way in ("number", "text")
    }
    assert found == {"number": "A", "text": "B"}
