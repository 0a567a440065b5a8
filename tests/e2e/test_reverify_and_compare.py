"""Collect, grade again, compare: the programs as processes, on the files that the collector really writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mock_server import MockServer

pytestmark = pytest.mark.e2e
GYM = str(Path(sys.executable).with_name("gym"))


def gym(folder, *arguments):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NEMO_GYM_")}
    return subprocess.run(
        [GYM, *map(str, arguments)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def collect(folder, answer, *overrides, resume=False):
    rows = folder / "rows.jsonl"
    lines = [json.dumps({"question": f"What is {n} + 1?", "expected_answer": str(n + 1)}) for n in range(12)]
    rows.write_text("\n".join(lines) + "\n")
    with MockServer(answer=answer) as server:
        output = folder / f"out-{answer}" / "rollouts.jsonl"
        command = [
            "eval",
            "run",
            "--benchmark",
            "arithmetic",
            "--input",
            rows,
            "--model",
            "mock",
            "--output",
            output,
        ]
        command += ["--model-url", server.base_url, *(["--resume"] if resume else []), *overrides]
        return output, gym(folder, *command), server.requests


def test_stored_answers_are_graded_again_and_runs_are_compared(tmp_path):
    lenient = "++benchmark.verifier.abs_tolerance=1"
    right, ran, _ = collect(tmp_path, "right")
    assert ran.returncode == 0, ran.stderr
    assert "score" in ran.stdout
    assert "100.0%" in ran.stdout
    wrong, ran, _ = collect(tmp_path, "wrong")
    assert ran.returncode == 0, ran.stderr

    ran = gym(tmp_path, "eval", "compare", right, wrong.parent, "--json")
    (found,) = json.loads(ran.stdout)["benchmarks"]
    assert (found["difference"], found["worse"], found["conclusion"]) == (-1.0, 12, "A is better")

    _, ran, requests = collect(tmp_path, "wrong", lenient, resume=True)
    assert (ran.returncode, requests <= 1) == (1, True)
    assert "gym eval reverify" in ran.stderr

    ran = gym(
        tmp_path, "eval", "reverify", "--rollouts", wrong, "--benchmark", "arithmetic", lenient, "--json"
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["changed"] == 12
    _, ran, _ = collect(tmp_path, "wrong", lenient, resume=True)
    assert ran.returncode == 0, ran.stderr
    assert "12 resumed" in ran.stdout

    ran = gym(tmp_path, "eval", "compare", right, wrong)
    assert ran.returncode == 1
    assert "benchmark.verifier.abs_tolerance: (unset) → 1" in ran.stderr
    assert ran.stdout == ""
