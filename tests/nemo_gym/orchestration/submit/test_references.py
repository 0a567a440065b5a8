"""The run that a benchmark of a submission is compared with."""

from pathlib import Path

import pytest
from tests.result_rows import result, write_output

from nemo_gym.errors import ConfigError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.submit.named_files import moved
from nemo_gym.orchestration.submit.references import with_references


def run(better_than):
    datasets = {"benchmark": {"jsonl_fpath": "/mine/rows.jsonl"}}
    benchmark = {"name": "sums", "datasets": datasets, "verifier": {"type": "match"}}
    until = {"half_width": None, "better_than": better_than, "seed": 3}
    return BenchmarkRun(run={"benchmark": benchmark, "split": "benchmark", "until": until}, prepare=None)


def test_a_folder_stands_for_its_rows(tmp_path):
    paths = write_output(tmp_path / "before", {(0, 0): result()}, tasks=1, repeats=1)
    found = with_references({"sums": run(str(tmp_path / "before"))})["sums"]
    assert found.run["until"] == {"half_width": None, "better_than": str(paths.output), "seed": 3}
    other = BenchmarkRun(run=None, prepare=None)
    assert with_references({"command": other}) == {"command": other}


def test_a_run_that_is_not_there_is_refused_with_the_dotted_path(tmp_path):
    with pytest.raises(
        ConfigError, match=r"driver\.benchmarks\.sums\.run\.until\.better_than: .*gym-job-nope"
    ):
        with_references({"sums": run("gym-job-nope")})


def test_its_rows_and_what_they_are_of_go_to_another_machine():
    mine = RolloutPaths(Path("/mine/results/rollouts.jsonl"))
    before = run(str(mine.output))
    found = moved(before, {mine.output}, Path("/there"), where="run", machine="far")
    there = RolloutPaths(Path("/there/reference-rollouts.jsonl"))
    assert found.run["until"]["better_than"] == str(there.output)
    assert found.inputs == {
        mine.output: there.output,
        mine.manifest: there.manifest,
        mine.materialized_inputs: there.materialized_inputs,
    }
