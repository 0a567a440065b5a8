from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.real_programs import needed_module

from nemo_gym.composition import parse_overrides
from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.dataset import check_rows
from nemo_gym.rollouts.run_config.catalog import shipped_root
from nemo_gym.rollouts.run_config.schema import load_run_config
from nemo_gym.verifiers.registry import load_verifier

PROGRAM = Path(sys.executable).with_name("gym")
COLUMNS = ["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"]
RECORDS = [
    ["Which invented gas is\nheaviest?", "blorium", "flimsium", "airium", "nullium"],
    ["How many moons has the made-up planet Zed, in words?", "four, exactly", "one", "two", "three"],
    ['Which of these is "quoted"?', ' "this" ', "that", "these", "those"],
]  # fmt: skip


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = shipped_root() / "benchmarks/gpqa/prepare.py"
    spec = importlib.util.spec_from_file_location("gpqa_prepare", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_row_keeps_the_right_answer_under_its_letter_and_the_order_is_the_questions(
    script: ModuleType,
) -> None:
    letters = set()
    for number in range(40):
        record = dict(zip(COLUMNS, [f"Invented question {number}?", "right", "w1", "w2", "w3"], strict=True))
        row = script.make_row(record)
        options = {letter: text for option in row["options"] for letter, text in option.items()}
        assert options[row["expected_answer"]] == "right"
        assert sorted(options.values()) == ["right", "w1", "w2", "w3"]
        assert row["problem"] == f"{row['question']}\n\n{row['options_text']}"
        assert script.make_row(record) == row
        letters.add(row["expected_answer"])
    assert letters == {"A", "B", "C", "D"}


def test_the_order_of_options_is_the_same_on_every_machine(script: ModuleType) -> None:
    row = script.make_row(dict(zip(COLUMNS, RECORDS[0], strict=True)))
    assert row["options_text"] == "A: airium\nB: flimsium\nC: nullium\nD: blorium"
    assert row["uuid"] == "71a4acf0-77eb-5210-b286-ab75873887b0"


def test_a_record_without_an_answer_is_named(script: ModuleType) -> None:
    record = dict(zip(COLUMNS, ["Q?", "a", "b", " ", "d"], strict=True))
    with pytest.raises(DataError, match="record 7 of the GPQA data has no 'Incorrect Answer 2'"):
        script.make_row(record, 7)


def test_a_source_that_is_no_data_file_is_refused(script: ModuleType, tmp_path: Path) -> None:
    for name in ("none.csv", "file.txt"):
        with pytest.raises(
            DataError, match=r"prepare_script_args.source: .* is not a CSV, JSONL or Parquet file"
        ):
            script.load_questions(str(tmp_path / name))


def _sources(folder: Path) -> list[Path]:
    with (folder / "q.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([["Record ID", *COLUMNS], *([str(n), *record] for n, record in enumerate(RECORDS))])
    with (folder / "q.jsonl").open("w") as stream:
        stream.writelines(json.dumps(dict(zip(COLUMNS, record, strict=True))) + "\n" for record in RECORDS)
    return [folder / "q.csv", folder / "q.jsonl"]


@pytest.mark.e2e
@pytest.mark.slow
def test_files_with_the_public_columns_become_rows_that_the_benchmark_can_grade(tmp_path: Path) -> None:
    needed_module("datasets")
    made = []
    for source in _sources(tmp_path):
        token = f"+prepare_script_args.source={source}"
        command = [
            PROGRAM,
            "eval",
            "prepare",
            "--benchmark",
            "gpqa",
            token,
            "+benchmark.datasets.benchmark.jsonl_fpath=d/g.jsonl",
        ]
        done = subprocess.run(
            command, cwd=tmp_path, env=_offline(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        made.append(Path(done.stdout.strip()))
    rows = [[json.loads(line) for line in path.read_text().splitlines()] for path in made]
    assert made[0] != made[1]
    assert rows[0] == rows[1]
    assert [row["question"] for row in rows[0]] == [record[0] for record in RECORDS]
    config = load_run_config(
        [], "gpqa", parse_overrides([f"input_jsonl_fpath={made[0]}"]), search_dirs=[], cwd=tmp_path
    ).config
    assert check_rows(config, made[0], load_verifier(config.benchmark.verifier, {})).num_tasks == 3


@pytest.mark.e2e
@pytest.mark.parametrize(("mark", "separator"), [("", ","), ("\ufeff", ";"), ("", "\t")])
def test_a_table_of_a_spreadsheet_is_read_as_it_is_written(
    script: ModuleType, tmp_path: Path, mark: str, separator: str
) -> None:
    source = tmp_path / "q.csv"
    options = ["1.50", "NA", "None", "007"]
    with source.open("w", newline="", encoding="utf-8") as stream:
        stream.write(mark)
        writer = csv.writer(stream, delimiter=separator)
        writer.writerow(["Question", script.RIGHT, *script.WRONG])
        writer.writerow(["Which?\nOne, of these; say", *options])
    script.prepare(tmp_path / "rows.jsonl", str(source))
    (row,) = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert sorted(text for option in row["options"] for text in option.values()) == sorted(options)
    assert {row["expected_answer"]: "1.50"} in row["options"]
    assert row["question"] == "Which?\nOne, of these; say"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"Frage,Antwort\n1,2\n", "record 1 .* has no 'Question'; its columns are Frage, Antwort"),
        ("Question,Correct Answer\ncaf\u00e9,2\n".encode("latin-1"), "is not UTF-8; export it as CSV UTF-8"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_what_it_has(
    script: ModuleType, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "q.csv").write_bytes(content)
    with pytest.raises(DataError, match=words):
        script.prepare(tmp_path / "rows.jsonl", str(tmp_path / "q.csv"))


@pytest.mark.slow
def test_without_the_network_there_is_one_clear_sentence(tmp_path: Path) -> None:
    needed_module("datasets")
    command = [
        PROGRAM,
        "eval",
        "prepare",
        "--benchmark",
        "gpqa",
        "+benchmark.datasets.benchmark.jsonl_fpath=d/g.jsonl",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=_offline(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("gym: the data set Idavidrein/gpqa cannot be had (")
    assert "HF_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "d") == []


def _offline() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
