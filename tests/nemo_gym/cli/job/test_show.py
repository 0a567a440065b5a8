"""`gym job show` from its arguments to what it prints."""

import json
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.results.test_scores import entry, record
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.cli.main import _status
from nemo_gym.job_paths import JobPaths, RolloutPaths, RunPaths


def output(folder: Path) -> RolloutPaths:
    results = {(0, 0): result(answer="0"), (1, 0): result(reward=0.0, answer="7")}
    paths = write_output(folder, results, tasks=2, repeats=1)
    config = run_config(benchmark_config(folder / "b"), "policy_model_name=m")
    write_manifest(paths, config, tasks=2, repeats=1)
    return paths


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    output(JobPaths(folder / "sums").artifacts)
    RunPaths(folder).record.write_bytes(record(folder, entry(folder / "sums")).dumps())
    return folder


def test_a_run_directory_and_a_folder_of_results_are_read_alike(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["job", "show", str(run_dir), "--wrong"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("sums task 1, repeat 0: wrong, reward 0: understood as 7, expected 1 | 0.1 s")
    assert "task 0" not in said
    for path in (run_dir / "sums", JobPaths(run_dir / "sums").artifacts):
        assert _status(["job", "show", str(path), "--task", "1"]) == 0
        assert "task 1, repeat 0: wrong" in capsys.readouterr().out


def test_json_is_one_document(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["job", "show", str(run_dir), "sums", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [rollout["outcome"] for rollout in found["rollouts"]] == ["right", "wrong"]
    assert {rollout["benchmark"] for rollout in found["rollouts"]} == {"sums"}


def test_an_output_of_another_name_is_found_in_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = output(tmp_path / "out")
    other = RolloutPaths(tmp_path / "out" / "mine.jsonl")
    for one, two in ((paths.output, other.output), (paths.manifest, other.manifest)):
        one.rename(two)
    assert _status(["job", "show", str(tmp_path / "out"), "--limit", "1"]) == 0
    assert capsys.readouterr().out.startswith("mine task 0, repeat 0: right")


def test_what_is_not_there_is_one_sentence(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["job", "show", str(run_dir), "other"]) == 1
    assert "has no benchmark 'other'; it has sums." in capsys.readouterr().err
    assert _status(["job", "show", str(tmp_path)]) == 1
    assert "no rollouts here" in capsys.readouterr().err
    assert _status(["job", "show", str(run_dir), "--failed"]) == 0
    assert capsys.readouterr() == ("", "gym: no rollout matches.\n")
