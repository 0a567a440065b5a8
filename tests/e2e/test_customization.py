"""Fine-tuning from the command line with the real service and the real TRL; a pause changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engines
from tests.e2e.jobs_service import JobsService

from nemo_helix_plugin.cli.commands.customization.dry_running import PARTS
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.customization.sdk import Customization
from nemo_helix_plugin.jobs import types

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DEADLINE = 180.0
STEPS = 40
NEMO = str(Path(sys.executable).with_name("nemo"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's engines, and everything else of this test's own."""
    engines.engine_python("trl")
    monkeypatch.setenv("XDG_CACHE_HOME", engines.shared_cache(tmp_path / "cache"))
    monkeypatch.setenv("NEMO_LEASES_DIR", str(tmp_path / "leases"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NHX_ENGINES_DEVICE", "cpu")


@pytest.fixture
def service(machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsService]:
    """A service of this test's own."""
    started = JobsService(tmp_path)
    started.start()
    monkeypatch.setenv("NHX_BASE_URL", started.url)
    yield started
    started.stop()


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return engines.preference_rows(tmp_path / "pairs.jsonl")


def spec(**changes: Any) -> dict[str, Any]:
    training = {
        "type": "dpo",
        "finetuning_type": "lora",
        "lora": {"rank": 4, "dropout": 0.1},
        "batch_size": 4,
        "max_steps": 5,
        "max_seq_length": 128,
    }
    return {"training": {**training, **changes}}


def written(folder: Path, document: dict[str, Any]) -> str:
    path = folder / "job.json"
    path.write_text(json.dumps(document))
    return str(path)


def nemo(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([NEMO, *arguments], capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def until(client: NemoClient, name: str, *wanted: str) -> types.HelixJobResponse:
    end = time.monotonic() + DEADLINE
    while True:
        job = client.jobs.get_job(name=name, workspace="default").data()
        if job.status in wanted:
            return job
        assert job.status not in types.TERMINAL, (job.status, job.reason, job.error_details)
        assert time.monotonic() < end, (wanted, job)
        time.sleep(0.05)


def test_a_job_of_who_may_only_operate_ends_with_its_adapter_registered(
    machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: Path
) -> None:
    monkeypatch.setenv("NHX_AUTH_REQUIRED", "true")
    started = JobsService(tmp_path)
    data = str(started.data)
    made = nemo("services", "token", "create", "ann", "--role", "operate", "--data-dir", data)
    started.start()
    try:
        monkeypatch.setenv("NHX_BASE_URL", started.url)
        monkeypatch.setenv("NHX_ACCESS_TOKEN", made.stdout.split()[-1])
        model = str(engines.tiny_model())
        job_json = written(tmp_path, {**spec(), "output": {"name": "sums", "description": "better at sums"}})
        words = ["customization", "rl", "--job-json", job_json, "--watch", "--poll-interval", "0.2"]
        done = nemo(*words, "--upload-model", model, "--upload-dataset", str(pairs))
        job = json.loads(done.stdout)
        assert job["status"] in {"created", "queued", "pending", "active"}
        assert job["source"] == "customization"
        assert "dpo-training | step 5/5" in done.stderr
        assert "completed" in done.stderr

        found = json.loads(nemo("models", "get", "sums", "--json").stdout)
        base = f"default/{Path(model).name}"
        assert (found["kind"], found["base_model"], found["created_by_job"]) == ("adapter", base, job["name"])
        assert found["description"] == "better at sums"
        nemo("models", "download", "sums", "-o", str(tmp_path / "got"))
        config = json.loads((tmp_path / "got" / "adapter_config.json").read_text())
        assert (config["r"], config["base_model_name_or_path"]) == (4, base)
        assert (tmp_path / "got" / "adapter_model.safetensors").stat().st_size > 0
        # the engine of a preview is kept to the same files as a step
        again = written(tmp_path, {**spec(), "model": base, "dataset": job["spec"]["dataset"]})
        previewed = nemo("customization", "rl", "preview", "--job-json", again, "--json")
        assert json.loads(previewed.stdout)["training"]["rows"] == 24
        # the raw way to run a command stays closed
        body = json.dumps({key: job[key] for key in ("source", "spec", "platform_spec")})
        nemo("jobs", "create", "--input-data", body, status=3)
    finally:
        started.stop()


def weights(service: JobsService, job: types.HelixJobResponse) -> str:
    path = (
        service.data
        / "jobs"
        / "default"
        / str(job.id)
        / "storage"
        / "output_model"
        / "adapter_model.safetensors"
    )
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_pause_and_a_resume_change_nothing_of_what_is_trained(service: JobsService, pairs: Path) -> None:
    whole = {**spec(max_steps=STEPS), "model": str(engines.tiny_model()), "dataset": str(pairs)}
    with NemoClient.from_config() as client:
        tuning = Customization.from_client(client)
        plain = tuning.rl.jobs.create(spec=whole, workspace="default", name="plain").job
        paused = tuning.rl.jobs.create(spec=whole, workspace="default", name="interrupted")
        assert paused.job.spec["checkpoints"]["seconds"] == 900
        end = time.monotonic() + DEADLINE
        while not (client.jobs.get_job(name=paused.name).data().status_details or {}).get("train_loss"):
            assert time.monotonic() < end
            time.sleep(0.02)
        nemo("jobs", "pause", paused.name, "--workspace", "default")
        stopped = until(client, paused.name, "paused")
        assert 0 < stopped.status_details["step"] < STEPS
        nemo("jobs", "resume", paused.name, "--workspace", "default")
        nemo("jobs", "watch", paused.name, "--poll-interval", "0.2")
        ends = [until(client, name, "completed") for name in (plain.name, paused.name)]
        series = [[point["step"] for point in end_.status_details["metrics"]["train_loss"]] for end_ in ends]
        assert series == [list(range(1, STEPS + 1))] * 2
        assert weights(service, ends[0]) == weights(service, ends[1])


def test_a_bad_row_is_named_before_training_starts(service: JobsService, tmp_path: Path, pairs: Path) -> None:
    lines = pairs.read_text().splitlines()
    lines[2] = '{"prompt": "What?", "chosen": "this"}'
    pairs.write_text("\n".join(lines) + "\n")
    job_json = written(tmp_path, {**spec(), "model": str(engines.tiny_model()), "dataset": str(pairs)})
    done = nemo("customization", "rl", "--job-json", job_json, "--wait", "--poll-interval", "0.2", status=1)
    with NemoClient.from_config() as client:
        job = client.jobs.get_job(name=json.loads(done.stdout)["name"]).data()
        assert job.error_details is not None
        assert job.error_details["exit_code"] == 2
        assert job.error_details["detail"] == "dataset/pairs.jsonl, line 3: lacks 'rejected'"
        tree = client.jobs.get_job_status(name=job.name).data()
        assert [step.status for step in tree.steps] == ["completed", "error"]


def test_each_end_has_its_exit_status(service: JobsService, tmp_path: Path, pairs: Path) -> None:
    rl = ["customization", "rl", "--job-json"]
    whole = {**spec(max_steps=500), "model": str(engines.tiny_model()), "dataset": str(pairs)}
    (tmp_path / "broken.json").write_text("{")
    assert "is not JSON" in nemo(*rl, str(tmp_path / "broken.json"), status=2).stderr
    unknown = nemo(*rl, written(tmp_path, {**whole, "modle": "x"}), status=2)
    assert "modle" in unknown.stderr
    both = nemo(*rl, written(tmp_path, whole), "--upload-dataset", str(pairs), status=2)
    assert "the spec names dataset already; give one of the two" in both.stderr
    assert "backend.key=value" in nemo(*rl, written(tmp_path, whole), "-o", "memory=1", status=2).stderr
    nemo(*rl, written(tmp_path, whole), "--wait", "--watch", status=2)
    nemo("customization", "rl", status=2)
    refused = nemo(*rl, written(tmp_path, {**whole, "deployment_config": "x"}), status=3)
    assert "deployment_config 'x' is not supported" in refused.stderr
    code = nemo(*rl, written(tmp_path, whole), "-f", "code")
    compile(code.stdout, "printed", "exec")
    explained = json.loads(nemo("customization", "rl", "explain", "--json").stdout)
    assert explained["engine"]["installed"] is True

    out = (tmp_path / "out.json").open("wb")
    argv = [NEMO, *rl, written(tmp_path, whole), "--wait", "--poll-interval", "0.2"]
    with out, subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        said = ""
        while "active" not in said:
            line = program.stderr.readline()
            assert line, said
            said += line
        os.kill(program.pid, signal.SIGINT)
        said += program.stderr.read()
        assert program.wait(60) == 130
    job = json.loads((tmp_path / "out.json").read_text())
    assert f"job '{job['name']}' still runs" in said
    nemo("jobs", "cancel", job["name"])
    with NemoClient.from_config() as client:
        until(client, job["name"], "cancelled")
        assert client.models.list(workspace="default").page().items == []


def test_a_preview_shows_what_would_be_learned_and_makes_no_job(
    service: JobsService, tmp_path: Path, pairs: Path
) -> None:
    lines = [json.loads(line) for line in pairs.read_text().splitlines()]
    lines[1]["prompt"] = "word " * 200
    lines[2]["chosen"] = "word " * 200
    lines[0]["id"] = 7
    pairs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = ["customization", "rl", "preview", "--job-json"]
    whole = {**spec(), "model": str(engines.tiny_model()), "dataset": str(pairs)}
    found = json.loads(nemo(*asked, written(tmp_path, whole), "-n", "1", "--json").stdout)
    assert [(part["mark"], part["text"]) for part in found["rows"][0]["parts"]] == [
        ("read", "What is 0 + 0?"),
        ("chosen", "0<|im_end|>"),
        ("rejected", "1<|im_end|>"),
    ]
    assert found["training"]["rows"] == 24
    assert found["training"]["left_out_lines"] == [2]
    assert found["training"]["shortened_lines"] == [3]
    assert found["training"]["unused_keys"] == {"id": 1}

    # the same out of a fileset, for people
    alone = {**spec(), "model": str(engines.tiny_model())}
    sent = nemo(*asked, written(tmp_path, alone), "--upload-dataset", str(pairs), "-n", "2", "-f", "table")
    printed = sent.stdout.splitlines()
    assert printed[0] == "dpo with trl, rows of at most 128 tokens"
    assert printed[1].startswith("training: pairs.jsonl, 24 rows, ")
    assert "  left out, with nothing to learn in 128 tokens: 1 of 24 rows (line 2)" in printed
    assert "  cut at the end: 1 of 24 rows (line 3)" in printed
    assert "  nothing is learned of the key 'id': 1 of 24 rows" in printed
    assert printed[printed.index("") :][:5] == [
        "",
        f"line 1, {found['rows'][0]['tokens']} tokens",
        "  read      What is 0 + 0?",
        "  chosen    0<|im_end|>",
        "  rejected  1<|im_end|>",
    ]
    code = nemo(*asked, written(tmp_path, whole), "-f", "code")
    compile(code.stdout, "printed", "exec")
    # the same looked at whole, and what it would take
    submit = ["customization", "rl", "--job-json", written(tmp_path, whole), "--dry-run"]
    tried = json.loads(nemo(*submit, "--json").stdout)
    assert tried["fits"] is True
    levels = {one["about"]: one["verdict"] for one in tried["findings"]}
    assert levels == {"spec": "ok", "names": "ok", "rows": "warning", "memory": "ok", "disk": "ok"}
    estimate = tried["estimate"]
    assert estimate["parameters"] > 131_000 > estimate["trained_parameters"] > 0
    assert estimate["sizes"]["rows"] == 23
    assert estimate["memory"]["total"] > estimate["memory"]["lower_bound"] > 4 * 131_000
    assert sum(estimate["memory"][part] for part in PARTS) == estimate["memory"]["total"]
    assert estimate["seconds"]["longest"] > estimate["seconds"]["shortest"] > 0

    pairs.write_text('{"prompt": "a", "chosen": "b"}\n')
    refused = nemo(*asked, written(tmp_path, whole), status=3)
    assert "dataset/pairs.jsonl, line 1: lacks 'rejected'" in refused.stderr
    refused = nemo(*asked, written(tmp_path, {**whole, "dataset": "hf://lab/pairs"}), status=3)
    assert "hf://lab/pairs is fetched by the job's first step" in refused.stderr
    assert json.loads(nemo("jobs", "list", "--json").stdout) == []


def test_a_sweep_is_checked_whole_submitted_once_compared_and_cancelled(
    service: JobsService, tmp_path: Path, pairs: Path
) -> None:
    nemo("files", "upload", "pairs", str(pairs))
    nemo("files", "upload", "base", str(engines.tiny_model()))
    nemo("models", "register", "base", "--fileset", "base")
    named = {**spec(max_steps=400), "model": "base", "dataset": "pairs", "output": {"name": "sums"}}
    job_json = written(tmp_path, named)
    words = ["customization", "rl", "--job-json", job_json, "--sweep-name", "rates"]
    wrong = nemo(*words, "--sweep", "training.max_steps=400,none", status=2)
    assert "training.max_steps" in wrong.stderr
    assert nemo("sweeps", "list", "--json").stdout.strip() == "[]"

    rates = ["--sweep", "training.learning_rate=1e-4,1e-3"]
    made = json.loads(nemo(*words, *rates).stdout)
    assert [job["name"] for job in made] == ["rates-1", "rates-2"]
    assert [job["spec"]["output"]["name"] for job in made] == ["sums-1", "sums-2"]
    again = json.loads(nemo(*words, *rates).stdout)
    assert [job["id"] for job in again] == [job["id"] for job in made]

    rows = json.loads(nemo("sweeps", "get", "rates", "--json").stdout)
    assert [row["training.learning_rate"] for row in rows] == [1e-4, 1e-3]
    ended = json.loads(nemo("sweeps", "cancel", "rates", "--yes", "--json").stdout)
    assert [row["done"] for row in ended] == [True, True]
