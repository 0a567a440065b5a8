"""The service type `vllm` with the real vLLM, without a GPU: two replicas that answer, and likelihoods."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.engines import harness_python, shared_cache, tiny_model
from tests.local_jobs import until
from tests.nemo_gym.harness import local_tasks
from tests.vllm_environment import variables, vllm_environment

from nemo_gym.job_paths import JobPaths
from nemo_runs.durable.journal import read_journal

pytestmark = [pytest.mark.vllm, pytest.mark.e2e]

GYM = Path(sys.executable).with_name("gym")
PLAIN = "--dtype float32 --enforce-eager --max-model-len 512 --max-num-seqs 8"
SUMS = {
    "name": "sums",
    "datasets": {"benchmark": {"jsonl_fpath": "rows.jsonl"}},
    "prompt": {"user": "{question}"},
    "verifier": {"type": "match"},
    "num_repeats": 2,
}


def submit_file(folder: Path, model: Path) -> Path:
    """One job that has two replicas answer questions, and jobs that ask one server for likelihoods."""
    environment = vllm_environment()
    env = {name: f"lit:{value}" for name, value in variables(environment).items()}
    env["PATH"] = f"lit:{environment}/bin:/usr/bin:/bin"
    rows = [{"question": f"What is {n} + 1?", "expected_answer": "12"} for n in range(8)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "sums.yaml").write_text(yaml.safe_dump({"benchmark": SUMS}))
    tasks = folder / "tasks"
    tasks.mkdir()
    local_tasks.write(tasks)
    task = {"include_path": [str(tasks)], "max_length": 400, "bootstrap_iters": 100}
    scored = {"config_paths": ["lm_eval/choices"], "benchmark": {"lm_eval": task}}
    config = {
        "services": {
            "policy": {
                "type": "vllm",
                "model": str(model),
                "served_model_name": "tiny",
                "replicas": 2,
                "extra_args": f"{PLAIN} --enable-tokenizer-info-endpoint",
                "env": env,
                "health_check": {"timeout_seconds": 900},
            }
        },
        "compute": {"here": {"type": "local", "max_parallel": 1}},
        "driver": {
            "policy_model": "policy",
            "env": {"HF_HUB_OFFLINE": "lit:1", "HF_HOME": f"lit:{folder / 'hf'}"},
            "benchmarks": {
                "sums": {
                    "run": {
                        "config_paths": ["sums.yaml"],
                        "responses_create_params": {"max_output_tokens": 8},
                    }
                },
                "asked": {"run": scored},
            },
        },
        "job": {"output_path": str(folder / "runs")},
    }
    path = folder / "submit.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_replicas_of_a_real_vllm_answer_and_give_likelihoods(tmp_path: Path) -> None:
    harness_python()
    path = submit_file(tmp_path, tiny_model())
    environ = {
        **os.environ,
        "XDG_CACHE_HOME": shared_cache(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    argv = [str(GYM), "eval", "submit", "-c", str(path), "--json"]
    made = subprocess.run(
        argv, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert made.returncode == 0, made.stderr
    record = json.loads(made.stdout)
    found: dict[str, dict[str, Any]] = {}
    for entry in record["benchmarks"]:
        paths = JobPaths(Path(entry["job_dir"]))
        until(paths.link(entry["job_id"]).end.exists, within=1500)
        said = "\n".join(path.read_text()[-3000:] for path in paths.logs.iterdir())
        assert paths.link(entry["job_id"]).end.read_text().split()[:2] == ["ended", "0"], said
        events = [event["event"] for event in read_journal(paths.events)]
        assert (events.count("service_healthy"), events.count("replica_lost")) == (2, 0)
        found[entry["benchmark"]] = json.loads(paths.rollouts.coverage.read_text())
        if entry["benchmark"] == "sums":
            answered = [
                path.read_text().count("POST /v1/chat/completions")
                for path in sorted(paths.logs.glob("policy-*"))
            ]
            assert sum(answered) == 16
            assert min(answered) > 0
    assert found["sums"]["run"]["new"] == 16
    accuracy = found["asked"]["metrics"]["acc,none"]["value"]
    assert 0 <= accuracy <= 1
    # the tokenizer's own files make the very same rows: a file of rows is named by its content
    task = ["--benchmark", "lm_eval/choices", "--include-path", str(tmp_path / "tasks")]
    made_by = [f"policy_tokenizer={tiny_model()}", "benchmark.lm_eval.max_length=400"]
    prepared = subprocess.run(
        [str(GYM), "eval", "prepare", *task, *made_by],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert prepared.returncode == 0, prepared.stderr
    assert len(list((tmp_path / "data").rglob("lm_eval/choices/*.json"))) == 2
    assert len(list((tmp_path / "data").rglob("rows-*.jsonl"))) == 1
