"""Fine-tuning whose training runs on the real Slurm, as `nemo customization` makes it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engines
from tests.e2e.jobs_service import JobsService
from tests.nemo_engines.forge import write_data
from tests.slurm.lab import until

from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.customization.sdk import Customization
from nemo_helix_plugin.jobs import types

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]

NEMO = str(Path(sys.executable).with_name("nemo"))
STEPS = 150
DEADLINE = 600.0
APPTAINER = """#!/bin/sh
# takes what Apptainer takes, and runs the command without a container
[ "$1" = exec ] && shift
while :; do
  case $1 in
    --bind) shift 2 ;;
    --nv) shift ;;
    *) break ;;
  esac
done
APPTAINER_CONTAINER=$1
export APPTAINER_CONTAINER
shift
exec "$@"
"""


class Cluster:
    """A service with profiles of the real Slurm, and what a test asks of both."""

    def __init__(
        self, service: JobsService, root: Path, image: Path, settings: Callable[[str], None]
    ) -> None:
        self.service, self.root, self.image, self._settings = service, root, image, settings

    def move(self, backend: str) -> None:
        """From now on the profile ``moving`` is one of another backend."""
        self.service.stop()
        self._settings(backend)
        self.service.start()

    def nemo(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([NEMO, *words], capture_output=True, text=True, check=False, timeout=DEADLINE)
        assert done.returncode == status, (done.stdout, done.stderr)
        return done

    def until(self, name: str, *wanted: str) -> types.HelixJobResponse:
        end = time.monotonic() + DEADLINE
        while True:
            job = self.get(name)
            if job.status in wanted:
                return job
            assert job.status not in types.TERMINAL, (job.status, job.reason, job.error_details, self.log())
            assert time.monotonic() < end, (wanted, job, self.log())
            time.sleep(0.1)

    def log(self) -> str:
        return self.service.log.read_text()[-2000:]

    def get(self, name: str) -> types.HelixJobResponse:
        with NemoClient.from_config() as client:
            return client.jobs.get_job(name=name, workspace="default").data()

    def make(self, name: str, spec: dict[str, Any], backend: str = "rl") -> types.HelixJobResponse:
        with NemoClient.from_config() as client:
            tuning = Customization.from_client(client)
            return getattr(tuning, backend).jobs.create(spec=spec, workspace="default", name=name).job

    def training(self, name: str) -> Any:
        """The training step as the job shows it."""
        with NemoClient.from_config() as client:
            tree = client.jobs.get_job_status(name=name, workspace="default").data()
        return next(step for step in tree.steps if "training" in step.name)

    def trained(self, name: str, steps: int = 1) -> None:
        """Wait until a training has finished so many steps."""
        until(lambda: (self.get(name).status_details or {}).get("step", 0) >= steps, timeout=DEADLINE)

    def here(self, job: types.HelixJobResponse) -> Path:
        return self.service.data / "jobs" / "default" / str(job.id) / "storage"

    def there(self, job: types.HelixJobResponse) -> Path:
        return self.root / "jobs" / str(job.id)

    def weights(self, job: types.HelixJobResponse) -> str:
        path = self.here(job) / "output_model" / "adapter_model.safetensors"
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def starts(self, job: types.HelixJobResponse) -> list[dict[str, Any]]:
        """What each start that ran on the cluster was given, in their order."""
        ran = sorted(self.there(job).glob("runs/*/node.json"), key=lambda path: path.stat().st_mtime)
        return [json.loads(path.with_name("order.json").read_text()) for path in ran]


def kill_trainers(token: str) -> None:
    """End what trains in a start, as its user's own mistake would."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            of_start = f"NEMO_JOB_TASK={token}".encode() in (entry / "environ").read_bytes()
            if of_start and b"nemo_engines.run" in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def spec(pairs: Path, profile: str | None = "lab", **changes: Any) -> dict[str, Any]:
    training = {
        "type": "dpo",
        "finetuning_type": "lora",
        "lora": {"rank": 4, "dropout": 0.1},
        "batch_size": 4,
        "max_steps": STEPS,
        "max_seq_length": 128,
        **({"execution_profile": profile} if profile else {}),
    }
    model = str(engines.tiny_model())
    return {"training": {**training, **changes}, "model": model, "dataset": str(pairs)}


def supervised(backend: str, rows: Path) -> dict[str, Any]:
    """What supervised fine-tuning by a backend on the cluster is asked for."""
    model = str(engines.tiny_model())
    training = {"lora": {"rank": 4, "dropout": 0.1}, "execution_profile": "lab"}
    if backend == "automodel":
        return {
            "model": model,
            "dataset": {"training": str(rows)},
            "training": {**training, "max_seq_length": 128},
            "schedule": {"max_steps": STEPS, "validation_split": 0},
            "batch": {"global_batch_size": 4},
        }
    return {
        "model": {"name": model, "max_seq_length": 128},
        "dataset": {"path": str(rows)},
        "training": training,
        "schedule": {"max_steps": STEPS},
        "batch": {"per_device_train_batch_size": 4},
    }


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return engines.preference_rows(tmp_path / "pairs.jsonl")


@pytest.fixture
def cluster(slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    python = str(engines.engine_python("trl"))
    root = slurm.folder / f"tuning-{secrets.token_hex(3)}"
    for name, value in slurm.lab.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", engines.shared_cache(tmp_path / "cache"))
    monkeypatch.setenv("NEMO_LEASES_DIR", str(tmp_path / "leases"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NHX_ENGINES_DEVICE", "cpu")
    # nothing of these may be seen by what runs on the cluster
    monkeypatch.setenv("HF_HOME", "/nowhere/hf")
    monkeypatch.setenv("PYTHONPATH", "/nowhere/python")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    base = {
        "root": str(root),
        "python": sys.executable,
        "device": "cpu",
        "poll_seconds": 0.5,
        "memory": "2Gi",
    }
    (tmp_path / "bin").mkdir()
    apptainer = tmp_path / "bin" / "apptainer"
    apptainer.write_text(APPTAINER)
    apptainer.chmod(0o755)
    image = tmp_path / "trl.sqsh"
    image.write_bytes(b"the first build")
    packed = {"engines": {"trl": python}, "setup": [f"export PATH={tmp_path / 'bin'}:$PATH"]}
    profiles = {
        "lab": {},
        "far": {"host": "lab", "engines": {"trl": python}},
        "bare": {"host": "lab"},
        "pyxis": {**packed, "container": {"runtime": "pyxis", "image": str(image)}},
        "apptainer": {**packed, "container": {"runtime": "apptainer", "image": str(image)}},
    }
    slurm_profiles = [
        {"provider": "cpu", "profile": name, "backend": "slurm", "config": {**base, **changes}}
        for name, changes in profiles.items()
    ]
    several = {"provider": "gpu_distributed", "profile": "several", "backend": "slurm", "config": base}
    moving = {"provider": "cpu", "profile": "moving"}
    backends = {
        "slurm": {**moving, "backend": "slurm", "config": base},
        "subprocess": {**moving, "backend": "subprocess"},
    }

    def settings(backend: str) -> None:
        listed = [*slurm_profiles, several, backends[backend]]
        monkeypatch.setenv("NHX_JOBS_EXECUTORS", json.dumps(listed))

    settings("subprocess")
    monkeypatch.setenv("NHX_JOBS_STORAGE_MINIMUM_FREE_BYTES", "0")
    service = JobsService(tmp_path)
    service.start()
    monkeypatch.setenv("NHX_BASE_URL", service.url)
    place = Cluster(service, root, image, settings)
    yield place
    service.stop()
    numbers = [
        json.loads(path.read_text())["job_id"]
        for path in service.data.glob("jobs/default/*/runs/*/cluster.json")
    ]
    if known := [number for number in numbers if number]:
        subprocess.run(["scancel", *known], check=False)


def test_a_training_runs_on_the_cluster_and_everything_else_at_the_service(
    cluster: Cluster, pairs: Path
) -> None:
    asked = {"benchmark": "arithmetic", "limit": 2, "every": 5, "prompts": ["1?"], "max_new_tokens": 2}
    job = cluster.make("tuned", {**spec(pairs, max_steps=5), "eval": asked})
    ended = cluster.until("tuned", "completed")
    # asked within the allocation, by the engine that is there
    [evaluation] = ended.status_details["evaluation"]["shown"]
    assert (evaluation["step"], evaluation["rows"]) == (5, 2), evaluation
    assert [point["step"] for point in ended.status_details["metrics"]["eval_arithmetic"]] == [5]
    assert json.loads(cluster.nemo("models", "get", job.spec["output"]["name"], "--json").stdout)
    (order,) = cluster.starts(job)
    variables = order["environment"]
    assert variables["PYTHONPATH"].startswith(f"{cluster.root}/code/")
    assert variables["OMP_NUM_THREADS"] == "1"
    assert "HF_HOME" not in variables
    machine = str(cluster.service.data)
    assert not [f"{key}={value}" for key, value in variables.items() if machine in value]
    assert ended.status_details["step"] == 5
    runs = {
        path.name for path in (cluster.service.data / "jobs" / "default" / str(job.id) / "runs").iterdir()
    }
    assert len(runs) == 4
    assert len({path.name for path in cluster.there(job).glob("runs/*")} & runs) == 1


def test_a_pause_and_a_resume_over_ssh_change_nothing_of_what_is_trained(
    cluster: Cluster, pairs: Path
) -> None:
    here = cluster.make("here", spec(pairs, None))
    job = cluster.make("paused", spec(pairs, "far"))
    cluster.trained("paused", 3)
    cluster.nemo("jobs", "pause", "paused")
    assert 0 < cluster.until("paused", "paused").status_details["step"] < STEPS
    cluster.nemo("jobs", "resume", "paused")
    ends = [cluster.until(name, "completed") for name in ("paused", "here")]
    series = [[point["step"] for point in one.status_details["metrics"]["train_loss"]] for one in ends]
    assert series == [list(range(1, STEPS + 1))] * 2
    losses = [[point["value"] for point in one.status_details["metrics"]["train_loss"]] for one in ends]
    assert losses[0] == losses[1]
    assert cluster.weights(job) == cluster.weights(here)
    assert "image_digest_warning" not in cluster.training("paused").status_details


@pytest.mark.parametrize("backend", ["automodel", "unsloth"])
def test_supervised_training_by_each_backend_ends_after_a_pause_as_without_one(
    cluster: Cluster, tmp_path: Path, backend: str
) -> None:
    rows = write_data("sft", tmp_path / "rows.jsonl")
    asked = supervised(backend, rows)
    whole, job = (cluster.make(name, asked, backend) for name in ("whole", "paused"))
    cluster.trained("paused", 3)
    cluster.nemo("jobs", "pause", "paused")
    assert 0 < cluster.until("paused", "paused").status_details["step"] < STEPS
    cluster.nemo("jobs", "resume", "paused")
    ends = [cluster.until(name, "completed") for name in ("paused", "whole")]
    losses = [
        {point["step"]: point["value"] for point in one.status_details["metrics"]["train_loss"]}
        for one in ends
    ]
    assert list(losses[0]) == list(range(1, STEPS + 1))
    assert losses[0] == losses[1]
    assert cluster.weights(job) == cluster.weights(whole)
    assert len(cluster.starts(job)) == 2
    assert json.loads(cluster.nemo("models", "get", job.spec["output"]["name"], "--json").stdout)


def test_an_engine_that_the_profile_does_not_name_is_said_before_there_is_a_job(
    cluster: Cluster, pairs: Path, tmp_path: Path
) -> None:
    (tmp_path / "job.json").write_text(json.dumps(spec(pairs, "bare")))
    refused = cluster.nemo("customization", "rl", "--job-json", str(tmp_path / "job.json"), status=3)
    assert "the engine trl has no interpreter on lab: name one by the key engines.trl" in refused.stderr


def test_an_image_that_changed_during_a_pause_is_named_with_both_digests(
    cluster: Cluster, pairs: Path
) -> None:
    job = cluster.make("packed", spec(pairs, "pyxis", max_steps=100_000))
    cluster.trained("packed", 3)
    until(lambda: cluster.training("packed").status_details.get("image_digest"), timeout=DEADLINE)
    before = cluster.training("packed").status_details["image_digest"]
    assert before.startswith(f"{cluster.image}@sha256:")
    cluster.nemo("jobs", "pause", "packed")
    cluster.until("packed", "paused")
    cluster.image.write_bytes(b"the second build, under the same name")
    cluster.nemo("jobs", "resume", "packed")
    until(lambda: "image_digest_warning" in cluster.training("packed").status_details, timeout=DEADLINE)
    details = cluster.training("packed").status_details
    after = details["image_digest"]
    assert after != before
    assert f"it was {before}, it is {after}" in details["image_digest_warning"]
    assert cluster.starts(job)[0]["container"]["runtime"] == "pyxis"
    cluster.nemo("jobs", "cancel", "packed")
    cluster.until("packed", "cancelled")


def test_a_training_runs_in_a_container_of_apptainer(cluster: Cluster, pairs: Path) -> None:
    cluster.make("packed", spec(pairs, "apptainer", max_steps=3))
    cluster.until("packed", "completed")
    assert cluster.training("packed").status_details["image_digest"].startswith(f"{cluster.image}@sha256:")


def test_several_nodes_train_one_model_through_a_pause_as_without(cluster: Cluster, pairs: Path) -> None:
    two = {"parallelism": {"num_nodes": 2}, "micro_batch_size": 2}
    jobs = [cluster.make(name, spec(pairs, "several", **two)) for name in ("paused", "whole")]
    made = json.loads(cluster.nemo("jobs", "get", jobs[0].name, "--json").stdout)
    executor = made["platform_spec"]["steps"][1]["executor"]
    assert (executor["provider"], executor["resources"]["num_nodes"]) == ("gpu_distributed", 2)
    cluster.trained("paused", 3)
    cluster.nemo("jobs", "pause", "paused")
    assert 0 < cluster.until("paused", "paused").status_details["step"] < STEPS
    cluster.nemo("jobs", "resume", "paused")
    ends = [cluster.until(name, "completed") for name in ("paused", "whole")]
    assert cluster.weights(ends[0]) == cluster.weights(ends[1])


def test_a_training_moves_to_the_cluster_and_back_and_ends_as_one_that_stayed(
    cluster: Cluster, pairs: Path
) -> None:
    job = cluster.make("moved", spec(pairs, "moving"))
    cluster.trained("moved", 3)
    cluster.nemo("jobs", "pause", "moved")
    first = cluster.until("moved", "paused").status_details["step"]
    cluster.move("slurm")
    cluster.nemo("jobs", "resume", "moved")
    cluster.trained("moved", first + 3)
    cluster.nemo("jobs", "pause", "moved")
    second = cluster.until("moved", "paused").status_details["step"]
    assert first < second < STEPS
    listed = json.loads(cluster.nemo("jobs", "checkpoints", "list", "moved", "--json").stdout)
    pinned = next(one["id"] for one in listed if one["step"] == second)
    cluster.nemo("jobs", "checkpoints", "pin", pinned, "--job", "moved")
    cluster.move("subprocess")
    cluster.nemo("jobs", "resume", "moved")
    whole = cluster.make("stayed", spec(pairs, None))
    ends = [cluster.until(name, "completed") for name in ("moved", "stayed")]
    series = [[point["step"] for point in one.status_details["metrics"]["train_loss"]] for one in ends]
    assert series == [list(range(1, STEPS + 1))] * 2
    assert cluster.weights(job) == cluster.weights(whole)
    shown = json.loads(cluster.nemo("jobs", "checkpoints", "get", pinned, "--job", "moved", "--json").stdout)
    assert shown["pinned_at"]


def test_a_training_that_was_killed_is_rerun_from_a_pinned_checkpoint_on_the_cluster(
    cluster: Cluster, pairs: Path
) -> None:
    with NemoClient.from_config() as client:
        tuning = Customization.from_client(client)
        options, longer = {"checkpoints": {"steps": 5, "keep": 99}}, spec(pairs)
        job = tuning.rl.jobs.create(spec=longer, workspace="default", name="killed", options=options).job
    cluster.trained("killed", 12)
    listed = json.loads(cluster.nemo("jobs", "checkpoints", "list", "killed", "--json").stdout)
    pinned = listed[-1]
    cluster.nemo("jobs", "checkpoints", "pin", pinned["id"], "--job", "killed")
    (run,) = cluster.there(job).glob("runs/*/node.json")
    kill_trainers(run.parent.name)
    cluster.until("killed", "error")
    until(lambda: cluster.get("killed").storage_bytes, timeout=DEADLINE)
    cluster.nemo("jobs", "rerun", "killed", "--checkpoint", pinned["id"])
    cluster.make("whole", spec(pairs, None))
    ends = [cluster.until(name, "completed") for name in ("killed", "whole")]
    assert cluster.weights(ends[0]) == cluster.weights(ends[1])
    cluster.nemo("jobs", "delete", "killed", "--yes")
    until(lambda: not cluster.there(job).exists(), timeout=DEADLINE)
