"""Submissions from Python, to jobs of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from tests.source_tree import ROOT

import nemo_gym
from nemo_gym.api.submitting import EvalSubmission

MOCK = (
    f'{sys.executable} {ROOT / "tests" / "mock_server.py"} --port {{port}} --options \'{{"models": ["m"]}}\''
)


def submit_file(folder: Path) -> Path:
    run = {
        "config_paths": [str(ROOT / "benchmarks" / "arithmetic" / "config.yaml")],
        "prepare_script_args": {"num_tasks": 3},
    }
    config = {
        "services": {"policy": {"type": "command", "command": MOCK, "model_name": "m"}},
        "compute": {"here": {"type": "local", "walltime": "00:10:00"}},
        "driver": {"policy_model": "policy", "benchmarks": {"sums": {"run": run}}},
        "job": {"output_path": "runs"},
    }
    path = folder / "submit.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.e2e
def test_a_submit_file_becomes_jobs_whose_results_are_read_by_their_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEMO_LEASES_DIR", str(tmp_path / "leases"))
    found = nemo_gym.submit(submit_file(tmp_path), overrides={"driver.run.num_samples_in_parallel": 2})
    assert found.failed == {}
    assert "queued" in repr(found)
    assert found.progress().state in ("queued", "running", "succeeded")
    seen: list[nemo_gym.EvalProgress] = []
    ended = found.wait(timeout=300, progress=seen.append)
    assert seen[-1] == ended
    sums = ended.benchmarks["sums"]
    assert (ended.state, sums.state, sums.done, sums.expected, sums.score) == (
        "succeeded",
        "succeeded",
        3,
        3,
        1.0,
    )
    assert [one.state for one in found.results()] == ["complete"]
    assert [one.score for one in nemo_gym.results(found.gym_job_id)] == [1.0]
    assert len(found.results()["sums"].rollouts()) == 3


def test_what_cannot_be_submitted_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(nemo_gym.errors.ConfigError, match=r"nowhere\.yaml"):
        nemo_gym.submit("nowhere.yaml")
    with pytest.raises(nemo_gym.errors.GymError, match="sumz"):
        nemo_gym.submit(submit_file(tmp_path), only=["sumz"])
    with pytest.raises(nemo_gym.errors.ConfigError, match=r"compute\.here\.walltme"):
        nemo_gym.submit(submit_file(tmp_path), overrides={"compute.here.walltme": "1"})
    with pytest.raises(nemo_gym.errors.UsageError, match="the value of job"):
        nemo_gym.submit(submit_file(tmp_path), overrides={"job.output_path": {"runs"}})
    assert not (tmp_path / "runs").exists()


def test_a_submission_is_shown_with_its_jobs() -> None:
    jobs, failed = {"sums": "17"}, {"gpqa": "<no space>"}
    found = EvalSubmission(gym_job_id="gym-job-1", run_dir=Path("/runs/1"), jobs=jobs, failed=failed)
    assert "gpqa            failed: <no space>" in repr(found)
    assert "<td>failed: &lt;no space&gt;</td>" in found._repr_html_()
