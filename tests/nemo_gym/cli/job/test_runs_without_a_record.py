"""Commands that read results take what `gym eval run` wrote as they take a submission."""

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.results.test_scores import entry, record
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.api.eval_results import results
from nemo_gym.cli.main import _status
from nemo_gym.job_paths import JobPaths, RolloutPaths, RunPaths
from nemo_gym.rollouts.scores.aggregate import aggregate

TASKS = 40


def output(folder: Path, model: str, right: int, name: str = "sums") -> RolloutPaths:
    results = {(task, 0): result(reward=float(task < right)) for task in range(TASKS)}
    paths = write_output(folder, results, tasks=TASKS, repeats=1)
    asked = (f"policy_model_name={model}", f"benchmark.name={name}")
    config = run_config(benchmark_config(folder.parents[2] / "b"), *asked)
    planned = paths.materialized_inputs.read_bytes()
    digest = {
        "sha256": hashlib.sha256(planned).hexdigest(),
        "size": len(planned),
        "rows": TASKS,
        "mtime_ns": 0,
    }
    manifest = write_manifest(paths, config, tasks=TASKS, repeats=1)
    replace(manifest, materialized=digest).save(paths.manifest)
    aggregate(paths, num_tasks=TASKS, num_repeats=1)
    return paths


@pytest.fixture
def leaders(tmp_path: Path) -> Path:
    """Two models and two benchmarks, each in a folder of its own, as `gym eval run --output` makes them."""
    for model, right in (("small", 4), ("large", 36)):
        for name in ("sums", "products"):
            output(tmp_path / "results" / model / f"my-{name}", model, right, name)
    return tmp_path / "results"


def told(capsys: pytest.CaptureFixture[str], words: Sequence[object], status: int = 0) -> str:
    assert _status([str(word) for word in words]) == status
    return capsys.readouterr().out


def test_a_leaderboard_is_made_of_a_folder_of_runs(leaders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, ["job", "results", leaders, "--matrix", "--json"]))
    assert (found["rows"], found["columns"]) == (["large", "small"], ["products", "sums"])
    assert [cell["row"] for cell in found["cells"] if cell["best"]] == ["large", "large"]
    assert {pair["column"] for pair in found["pairs"]} == {"sums", "products"}


def test_single_runs_and_submissions_stand_in_one_table(
    leaders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    output(JobPaths(run / "sums").artifacts, "middle", 20)
    RunPaths(run).record.write_bytes(record(run, entry(run / "sums")).dumps())
    folder = leaders / "small" / "my-sums"
    words = ["job", "results", folder, folder / "rollouts.jsonl", run, "--csv", "--with", "num_repeats"]
    rows = list(csv.DictReader(io.StringIO(told(capsys, words))))
    assert [row["model"] for row in rows] == ["small", "small", "middle"]
    assert [row["score"] for row in rows] == ["0.1", "0.1", "0.5"]
    assert {row["num_repeats"] for row in rows} == {"1"}
    assert rows[0]["gym_job_id"] == str(folder)
    assert rows[0]["output"] == str(folder / "rollouts.jsonl")


def test_the_age_of_a_run_without_a_record_is_that_of_its_output(
    leaders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leaders / "small" / "my-sums"
    words = ["job", "results", folder, "--json", "--with", "age", "--with", "submitted", "--with", "cluster"]
    (found,) = json.loads(told(capsys, words))["results"]
    assert found["facts"]["age"]
    assert found["facts"]["submitted"]
    assert found["facts"]["cluster"] is None


def test_two_benchmarks_of_one_name_in_one_folder_keep_their_folders_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("short", "long"):
        output(JobPaths(tmp_path / "run" / name).artifacts, "m", 10, "sums")
    found = json.loads(told(capsys, ["job", "results", tmp_path / "run", "--json"]))["results"]
    assert [row["benchmark"] for row in found] == ["long", "short"]


def test_a_run_without_a_record_is_certified(leaders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = leaders / "small" / "my-sums"
    found = json.loads(told(capsys, ["job", "verify", folder, "--json"]))
    assert found["valid"]
    assert found["gym_job_id"] is None
    assert found["run_dir"] == str(folder)
    assert [each["benchmark"] for each in found["benchmarks"]] == ["my-sums"]
    assert "CERTIFIED: complete and intact." in told(capsys, ["job", "verify", folder])
    rows = folder / "rollouts.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[1:]))
    said = told(capsys, ["job", "verify", folder, "my-sums"], status=1)
    assert "missing 1" in said
    assert "NOT CERTIFIED" in said


def test_a_script_reads_all_runs_below_a_folder(leaders: Path) -> None:
    found = results(leaders)
    of_both = {("small", 0.1), ("large", 0.9)}
    for name in ("sums", "products"):
        assert {(each.model, each.score) for each in found if each.benchmark == name} == of_both


def test_a_metric_is_shown_in_place_of_the_score(leaders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, ["job", "results", leaders, "--matrix", "--metric", "kappa"])
    assert "kappa, with 95% intervals" in said
    assert "best" not in said


def test_what_needs_a_job_says_that_there_is_none(leaders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "logs", "info", "bill", "cancel", "resubmit"):
        assert _status(["job", command, str(leaders / "small" / "my-sums")]) == 1
        said = capsys.readouterr().err
        assert "was not made by a submission, so there is no job" in said
        assert "read such folders" in said


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for words in (["job", "results", tmp_path / "empty"], ["job", "verify", tmp_path / "empty"]):
        assert _status([str(word) for word in words]) == 1
        assert "no rollouts here" in capsys.readouterr().err
