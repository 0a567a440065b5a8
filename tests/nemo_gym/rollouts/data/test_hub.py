"""Data sets of the hub and folders of the same kind become files of rows, once for each content."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.real_programs import needed_module

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data import hub
from nemo_gym.rollouts.data.prepare import data_path, ensure_data
from nemo_gym.rollouts.run_config.dataset_schema import HubDataset
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config

ROWS = [{"q": "1 + 1", "a": "2"}, {"q": "2 + 2", "a": None}]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def config(**huggingface: Any) -> RunConfig:
    benchmark = {
        "name": "toy",
        "datasets": {"benchmark": {"huggingface": huggingface}},
        "prompt": {"user": "{q}"},
        "verifier": {"type": "match", "answer_field": "a"},
    }
    return RunConfig.model_validate({"benchmark": benchmark})


def folder(at: Path) -> Path:
    at.mkdir()
    for split, rows in (("train", ROWS[:1]), ("test", ROWS)):
        (at / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return at


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_a_split_of_a_folder_becomes_rows_and_is_made_again_when_a_file_changes(tmp_path: Path) -> None:
    needed_module("datasets")
    run = config(path=str(folder(tmp_path / "set")), split="test")
    first = ensure_data(run)
    assert first == data_path(run)
    assert first.is_relative_to(tmp_path / "share")
    assert rows(first) == ROWS
    (tmp_path / "set" / "test.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    assert data_path(run) != first
    assert rows(ensure_data(run)) == ROWS[:1]
    with pytest.raises(ConfigError, match=r"huggingface.split: .* has .*test.*; name one of them"):
        ensure_data(config(path=str(tmp_path / "set")))
    with pytest.raises(DataError, match="cannot be read as a data set"):
        ensure_data(config(path=str(tmp_path / "set"), split="other"))


@pytest.mark.slow
def test_what_the_library_saved_is_read_with_its_images(tmp_path: Path) -> None:
    datasets = needed_module("datasets")
    png = b"\x89PNG\r\n\x1a\nrest"
    made = datasets.Dataset.from_dict({"q": ["x"], "image": [{"bytes": png, "path": None}]})
    made = made.cast_column("image", datasets.Image())
    made.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"test": made}).save_to_disk(str(tmp_path / "several"))
    for name in ("one", "several"):
        (row,) = rows(ensure_data(config(path=str(tmp_path / name))))
        assert row == {"q": "x", "image": "data:image/png;base64,iVBORw0KGgpyZXN0"}


@pytest.mark.slow
def test_what_cannot_be_had_is_said_with_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = needed_module("datasets")

    def offline(*_: Any, **__: Any) -> None:
        raise ConnectionError("Couldn't reach 'a/b' on the Hub")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(DataError) as caught:
        hub.write_rows(HubDataset(path="a/b"), tmp_path / "out", "benchmark.datasets.benchmark.huggingface")
    assert "the data set a/b cannot be had (ConnectionError: Couldn't reach 'a/b' on the Hub)" in str(
        caught.value
    )
    assert "needs the network" in str(caught.value)


def test_a_folder_is_found_beside_its_config_and_a_name_of_the_hub_stays(tmp_path: Path) -> None:
    folder(tmp_path / "set")
    for given, wanted in (("set", str(tmp_path / "set")), ("./none", str(tmp_path / "none")), ("a/b", "a/b")):
        (tmp_path / "c.yaml").write_text(
            "benchmark:\n  name: toy\n  verifier: {type: match}\n"
            f"  datasets: {{benchmark: {{huggingface: {{path: {given}}}}}}}\n"
        )
        found = load_run_config([str(tmp_path / "c.yaml")], None, [], search_dirs=[], cwd=Path(os.sep)).config
        source = found.benchmark.datasets["benchmark"].huggingface
        assert source is not None
        assert source.path == wanted


@pytest.mark.parametrize(
    ("dataset", "problem"),
    [
        ({}, "needs jsonl_fpath .* or huggingface"),
        ({"huggingface": {"path": "a/b"}, "prepare_script": "p.py"}, "both huggingface and prepare_script"),
        ({"huggingface": {"path": ""}}, "at least 1 character"),
    ],
)
def test_data_comes_from_one_place(dataset: dict[str, Any], problem: str) -> None:
    benchmark = {"name": "toy", "datasets": {"benchmark": dataset}, "verifier": {"type": "match"}}
    with pytest.raises(ValueError, match=problem):
        RunConfig.model_validate({"benchmark": benchmark})
