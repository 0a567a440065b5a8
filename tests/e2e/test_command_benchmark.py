"""Another harness as a benchmark of a submission: a job reaches its time limit, the next one goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.worlds import MOCK

pytestmark = pytest.mark.e2e
GYM = str(Path(sys.executable).with_name("gym"))
HARNESS = """\
import json, os, sys, time
from pathlib import Path
outputs = Path(os.environ["NEMO_GYM_OUTPUTS"])
if "--go-on" not in sys.argv:
    (outputs / "half.json").write_text("1")
    time.sleep(600)
half = json.loads((outputs / "half.json").read_text())
samples = [{"id": number, "score": number < 3, "answer": "x"} for number in range(half + 3)]
(outputs / "results.json").write_text(json.dumps({"samples": samples, "accuracy": 0.75}))
"""


def test_a_harness_outlives_its_job_and_is_recorded_shown_verified_and_billed(tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text(HARNESS)
    command = {
        "argv": [sys.executable, "harness.py"],
        "resume_args": ["--go-on"],
        "working_folder": str(tmp_path),
        "files": [str(tmp_path / "harness.py")],
        "results": {"path": "results.json", "samples": "samples", "score": "accuracy", "answer": "answer"},
    }
    policy = {"type": "command", "command": f'{MOCK} \'{{"models": ["m"]}}\'', "model_name": "m"}
    run = {"benchmark": {"name": "theirs", "command": command}}
    config: dict[str, Any] = {
        "services": {"policy": policy},
        "compute": {"here": {"type": "local", "walltime": "00:00:20"}},
        "driver": {
            "policy_model": "policy",
            "benchmarks": {"theirs": {"resumable": {"max_walltime": "01:00:00"}, "run": run}},
        },
        "job": {"output_path": "runs"},
    }
    (tmp_path / "submit.yaml").write_text(yaml.safe_dump(config))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NEMO_GYM_")}
    environ |= {"HOME": str(tmp_path), "NEMO_LEASES_DIR": str(tmp_path / "leases")}

    def gym(*words: str) -> Any:
        done = subprocess.run(
            [GYM, *words, "--json"],
            cwd=tmp_path,
            env=environ,
            text=True,
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    record = gym("eval", "submit", "-c", "submit.yaml", "--follow")
    name = record["gym_job_id"]
    links = (Path(record["run_dir"]) / "theirs" / ".gym_job_chain").read_text().split()
    (found,) = gym("job", "results", name)["results"]
    assert (found["status"], found["score"], found["expected"], found["model"]) == ("complete", 0.75, 4, "m")
    assert found["metrics"]["reported"]["value"] == 0.75
    assert len(links) > 1
    state = Path(record["run_dir"]) / "theirs" / "artifacts" / "rollouts_command" / "state.json"
    assert json.loads(state.read_bytes())["outputs"] == 1
    (status,) = gym("job", "status", name)["submissions"][0]["benchmarks"]
    assert status["state"] == "succeeded"
    assert gym("job", "verify", name)["valid"] is True
    assert gym("job", "bill", name)["benchmarks"] != []
