"""Any number of runs against the first, and what is corrected."""

import json
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.results.test_matrix import cell
from tests.nemo_gym.orchestration.results.test_scores import record

from nemo_gym.cli.main import _status
from nemo_gym.job_paths import JobPaths, RunPaths, index_entry
from nemo_gym.rollouts.scores.compare_many import NamedOutputs, compare_many


def run(folder: Path, name: str, right: int) -> NamedOutputs:
    _, found = cell(folder, name, right)
    return NamedOutputs(name, {"sums": JobPaths(Path(found.job_dir)).rollouts})


def test_conclusions_are_corrected_for_the_number_of_comparisons(tmp_path: Path) -> None:
    runs = [run(tmp_path, "a", 10), run(tmp_path, "b", 14), run(tmp_path, "c", 10), run(tmp_path, "d", 30)]
    assert compare_many(runs[:2])[0].conclusions() == ["better than the first"]
    found = compare_many(runs)
    assert [one.conclusions() for one in found] == [
        ["no difference is shown"],
        ["no difference is shown"],
        ["better than the first"],
    ]
    assert found[2].to_json()["benchmarks"][0]["p_adjusted"] < 1e-5


def test_the_command_takes_any_number_of_runs_paths_and_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, right in (("a", 10), ("b", 30), ("c", 10)):
        cell(tmp_path, name, right)
    made = record(tmp_path / "run-c", *())
    made = type(made).load({**made.to_json(), "benchmarks": [
        {"benchmark": "sums", "job_dir": str(tmp_path / "run-c" / "sums"), "job_id": "1"}
    ]})  # fmt: skip
    RunPaths(tmp_path / "run-c").record.write_bytes(made.dumps())
    index_entry(made.gym_job_id).parent.mkdir(parents=True, exist_ok=True)
    index_entry(made.gym_job_id).write_bytes(made.dumps())
    runs = [str(tmp_path / "run-a"), str(tmp_path / "run-b" / "sums"), "latest"]
    assert _status(["eval", "compare", *runs]) == 0
    said = capsys.readouterr().out
    assert "better than the first" in said
    assert "no difference is shown" in said
    assert _status(["eval", "compare", *runs, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["run"] for one in document["comparisons"]] == runs[1:]
    assert _status(["eval", "compare", "latest", runs[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmarks"][0]["conclusion"] == "no difference is shown"
    assert _status(["eval", "compare", "latest"]) == 2
    assert "give two runs or more" in capsys.readouterr().err
    assert _status(["job", "results", "latest", "--matrix", "--rows", "label.team", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("| label.team | sums |\n")
    assert _status(["job", "results", "latest", "--with", "age", "--with", "nothing", "--csv"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].endswith(",age,nothing")
    assert "no run here has 'nothing'" in shown.err
