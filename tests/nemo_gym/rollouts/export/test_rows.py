"""Rollouts as tables, read back."""

import csv
import json
from pathlib import Path

import pytest
from tests.nemo_gym.rollouts.export.outputs import ODD, THOUGHTS, exported
from tests.real_programs import needed_module

from nemo_gym.rollouts.export.rows import COLUMNS, write_csv, write_parquet

parquet = needed_module("pyarrow.parquet")


@pytest.mark.slow
def test_parquet_is_read_back_with_types(tmp_path: Path) -> None:
    outputs = [exported(tmp_path / "a"), exported(tmp_path / "b", "gpqa"), exported(tmp_path / "c", "words")]
    assert write_parquet(outputs, tmp_path / "x.parquet") == 12
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.column_names == list(COLUMNS)
    rows = table.to_pylist()
    assert [row["benchmark"] for row in rows] == ["sums"] * 6 + ["words"] * 6
    assert [row["reward"] for row in rows[:6]] == [1.0, 0.0, 0.0, 1.0, 0.5, None]
    assert [row["outcome"] for row in rows[:6]] == [
        "right",
        "wrong",
        "wrong",
        "right",
        "partly right",
        "failed",
    ]
    first, cut, failed = rows[0], rows[2], rows[5]
    assert (first["thoughts"], first["expected"], first["latency_ms"]) == (THOUGHTS, "0", 100.0)
    assert json.loads(first["prompt"]) == [{"role": "user", "content": "What is 0 + 0?"}]
    assert json.loads(rows[4]["verdict"]) == {"verdict_note": "half"}
    assert (cut["answer"], cut["end"], cut["extracted"]) == (ODD, "max_output_tokens", None)
    assert (json.loads(failed["failures"]), failed["completion_tokens"]) == (["model_call_failed"], None)


def test_csv_is_read_back(tmp_path: Path) -> None:
    assert write_csv([exported(tmp_path / "a")], tmp_path / "x.csv") == 6
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["reward"] for row in rows] == ["1.0", "0.0", "0.0", "1.0", "0.5", ""]
    assert rows[2]["answer"] == ODD
    assert rows[5]["outcome"] == "failed"
