"""Several data sets with weights: which rows come, in which order, and what is compared before going on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_engines import spec
from nemo_engines.data import learned, mixing
from nemo_engines.data.learned import Cut, Tokens
from nemo_engines.data.mixing import chosen
from nemo_engines.data.rows import Dataset
from nemo_engines.errors import BadSpecError, TrainingDataError


def wanted(folder: Path, **data: Any) -> spec.EngineSpec:
    (folder / "chats.jsonl").write_text(
        "".join(
            json.dumps(
                {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": str(n)}]}
            )
            + "\n"
            for n in range(4)
        )
    )
    (folder / "pairs.jsonl").write_text(
        "".join(json.dumps({"prompt": "a", "completion": str(n)}) + "\n" for n in range(10))
    )
    beside = [{"dataset": str(folder / "pairs.jsonl"), "weight": 0.5}]
    return spec.parse_spec(
        {
            "engine": "trl",
            "method": "sft",
            "model": "m",
            "dataset": str(folder / "chats.jsonl"),
            "output": "o",
            "data": {"weight": 2, "beside": beside, **data},
        }
    )


def trained_on(asked: spec.EngineSpec) -> Dataset:
    return mixing.mixed(mixing.read_weighted(asked), asked.seed)


def test_a_whole_weight_repeats_rows_and_a_part_takes_the_same_ones_always() -> None:
    found = chosen([2, 10], [2.0, 0.5], seed=1)
    assert found[:4] == [(0, 0), (0, 1), (0, 0), (0, 1)]
    assert len(found) == 4 + 5
    assert found == chosen([2, 10], [2.0, 0.5], seed=1)
    assert found[4:] == sorted(found[4:])
    assert {tuple(chosen([2, 10], [2.0, 0.5], seed=seed)) for seed in range(5)} != {tuple(found)}


def test_one_more_data_set_changes_nothing_of_those_before_it() -> None:
    two = chosen([20, 20], [0.5, 1.25], seed=3)
    assert chosen([20, 20, 7], [0.5, 1.25, 1.0], seed=3)[: len(two)] == two


def test_a_weight_that_takes_no_row_is_refused() -> None:
    with pytest.raises(
        BadSpecError, match=r"the weight 0\.01 takes none of the 10 rows of data set 2: raise it"
    ):
        chosen([5, 10], [1.0, 0.01], seed=1)


def test_rows_of_several_shapes_are_mixed_and_keep_their_places(tmp_path: Path) -> None:
    data = trained_on(wanted(tmp_path))
    assert len(data.rows) == 8 + 5
    assert {frozenset(row) for row in data.rows} == {
        frozenset({"messages"}),
        frozenset({"prompt", "completion"}),
    }
    assert data.rows.place(4) == f"{tmp_path / 'chats.jsonl'}, line 1"
    last = data.rows.lines[-1]
    assert data.rows.place(12) == f"{tmp_path / 'pairs.jsonl'}, line {last}"
    assert learned.lines_of(data.rows, [0, 12]) == f"chats.jsonl:1, pairs.jsonl:{last}"


def test_what_is_compared_before_going_on_names_every_file_weight_and_the_order(tmp_path: Path) -> None:
    before = trained_on(wanted(tmp_path)).identity
    assert before == trained_on(wanted(tmp_path)).identity
    assert before.count("sha256:") == 2
    assert "(4 rows) x 2; " in before
    changed = wanted(tmp_path, beside=[{"dataset": str(tmp_path / "pairs.jsonl"), "weight": 0.6}])
    assert trained_on(changed).identity != before
    assert spec.settings(changed)["data.beside"] == "[0.6]"


def test_a_single_data_set_is_compared_as_before(tmp_path: Path) -> None:
    alone = trained_on(wanted(tmp_path, weight=1, beside=None))
    assert alone.identity.endswith(" (4 rows)")
    assert "x" not in alone.identity.partition(" (")[2]


def test_a_bad_row_of_any_file_is_named(tmp_path: Path) -> None:
    asked = wanted(tmp_path)
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "a", "completion": "b"}\n{"prompt": "a"}\n')
    with pytest.raises(TrainingDataError, match=r"pairs.jsonl, line 2: lacks 'completion'"):
        trained_on(asked)


def test_weights_are_more_than_0() -> None:
    base = {"engine": "trl", "method": "sft", "model": "m", "dataset": "d", "output": "o"}
    with pytest.raises(BadSpecError, match=r"data.beside\[0\].weight must be more than 0"):
        spec.parse_spec({**base, "data": {"beside": [{"dataset": "x", "weight": 0}]}})
    with pytest.raises(BadSpecError, match=r"data\.weight must be more than 0"):
        spec.parse_spec({**base, "data": {"weight": -1}})


def test_the_last_turn_alone_is_learned_where_that_is_asked_for(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": turns * 3}) + "\n")
    base = {"engine": "trl", "method": "sft", "model": "m", "dataset": str(tmp_path / "rows.jsonl")}
    (row,) = trained_on(spec.parse_spec({**base, "output": "o", "data": {"learned_turns": "last"}})).rows
    assert row["unlearned"] == [1, 3]
    turns[1] = {"role": "assistant", "content": "b", "weight": 0}
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"messages": [{"role": "assistant", "content": "x"}, *turns]})
    )
    with pytest.raises(TrainingDataError, match="the assistant's last message is not to be learned"):
        trained_on(spec.parse_spec({**base, "output": "o", "data": {"learned_turns": "last"}}))


@pytest.mark.parametrize(
    ("engine", "data", "only"),
    [
        ("trl", {}, False),
        ("automodel", {}, True),
        ("automodel", {"learned_turns": "all"}, False),
        ("unsloth", {"learned_turns": "assistant"}, True),
        ("trl", {"learned_turns": "last"}, True),
    ],
)
def test_which_turns_are_learned(engine: str, data: dict[str, Any], only: bool) -> None:
    base = {"engine": engine, "method": "sft", "model": "m", "dataset": "d", "output": "o"}
    assert spec.answers_only(spec.parse_spec({**base, "data": data})) is only


ROWS = [Tokens([1] * length, [True] * length) for length in (3, 9, 4, 12)]


def overlong(policy: str) -> spec.EngineSpec:
    base = {"engine": "trl", "method": "sft", "model": "m", "dataset": "d", "output": "o"}
    return spec.parse_spec({**base, "max_seq_length": 8, "data": {"overlong": policy}})


def test_rows_that_are_too_long_are_cut_or_left_out_and_counted() -> None:
    cut = learned.cut_tokens(ROWS, 8)
    assert cut == Cut([], [1, 3], 5)
    rows = [{}] * 4
    assert learned.cut_warnings(overlong("truncate"), "training", rows, cut) == [
        "2 of 4 training rows lose their end to max_seq_length 8; lines 2, 4"
    ]
    dropped = learned.cut_tokens(ROWS, 8, drops=True)
    assert dropped == Cut([1, 3], [], 21)
    assert learned.kept("abcd", dropped) == ["a", "c"]
    (said,) = learned.cut_warnings(overlong("drop"), "training", rows, dropped)
    assert said.startswith("2 of 4 training rows are left out: they are longer than max_seq_length 8")


def test_rows_that_are_too_long_are_an_error_where_that_is_asked_for() -> None:
    with pytest.raises(TrainingDataError, match="2 of 4 training rows are longer than max_seq_length 8"):
        learned.cut_warnings(overlong("error"), "training", [{}] * 4, learned.cut_tokens(ROWS, 8))
    assert learned.cut_warnings(overlong("error"), "training", [{}] * 4, Cut([], [], 0)) == []


def test_a_chat_template_is_compared_by_its_digest(tmp_path: Path) -> None:
    one, other = (
        spec.settings(wanted(tmp_path, chat_template=text))["data.chat_template"]
        for text in ("{{ a }}", "{{ b }}")
    )
    assert one.startswith("sha256:")
    assert one != other
