"""Trainings that fail for real reasons: each ends with a sentence, and a rerun is told what to change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import engines
from tests.e2e.jobs_service import JobsService
from tests.nemo_engines.forge import write_data

from nemo_helix_plugin.client.client import NemoClient

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DEADLINE = 180.0


class Shop:
    """A service, and trainings that it is given."""

    def __init__(self, folder: Path, client: NemoClient) -> None:
        self.folder = folder
        self._client = client

    def spec(self, **changes: Any) -> dict[str, Any]:
        """A short training of the tiny model."""
        base = {
            "engine": "trl",
            "method": "sft",
            "model": str(engines.tiny_model()),
            "dataset": str(write_data("sft", self.folder / "rows.jsonl")),
            "output": "model",
            "finetuning": "full",
            "schedule": {"max_steps": 4},
            "batch": {"per_device": 4},
            "devices": {"kind": "cpu"},
            "max_seq_length": 96,
        }
        return {**base, **changes}

    def create(
        self, config: dict[str, Any], *, command: list[str] | None = None, memory: str | None = None
    ) -> str:
        """A job of one training step; its name."""
        variables = {**engines.sources.engine_environment(engines.CACHE, {}), "OMP_NUM_THREADS": "1"}
        run = [str(engines.engine_python("trl")), "-P", "-m", "nemo_engines.run"]
        step = {
            "name": "training",
            "environment": [{"name": name, "value": value} for name, value in variables.items()],
            "executor": {
                "provider": "subprocess",
                "command": [*(command or []), *run],
                "resources": {"limits": {"memory": memory}} if memory else {},
            },
            "config": config,
            "lifecycle": {"pause_deadline_seconds": 60},
        }
        body = {"source": "customization", "spec": {}, "platform_spec": {"steps": [step]}}
        return str(self._client.jobs.create_job(body=body).data().name)

    def ended(self, name: str) -> dict[str, Any]:
        """The error of a job that has failed."""
        end = time.monotonic() + DEADLINE
        while (job := self._client.jobs.get_job(name=name).data()).status != "error":
            assert job.status not in ("completed", "cancelled"), job.status
            assert time.monotonic() < end, job
            time.sleep(0.1)
        assert job.error_details is not None
        return dict(job.error_details)

    def rerun(self, name: str) -> str | None:
        """Rerun it; the warning that its step has."""
        self._client.jobs.rerun_job(job=name)
        details = self._client.jobs.get_job_status(name=name).data().steps[0].status_details
        warning = (details or {}).get("rerun_warning")
        self._client.jobs.cancel_job(name=name)
        return warning


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One service for all."""
    folder = tmp_path_factory.mktemp("failures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("NEMO_LEASES_DIR", str(folder / "leases"))
        started = JobsService(folder)
        started.start()
        patch.setenv("NHX_BASE_URL", started.url)
        try:
            with NemoClient.from_config() as client:
                yield Shop(folder, client)
        finally:
            started.stop()


def test_more_memory_than_the_limit_allows(shop: Shop) -> None:
    name = shop.create(shop.spec(), memory="150Mi")
    error = shop.ended(name)
    assert error["type"] == "out_of_memory"
    assert error["message"].endswith("its limit is 150 MiB: the step's memory limit was not enough")
    warning = shop.rerun(name)
    assert warning is not None
    assert "raise resources.limits.memory of the step, or load less at once, in a new job" in warning


def test_a_loss_that_is_no_number(shop: Shop) -> None:
    name = shop.create(shop.spec(optimizer={"learning_rate": 1e30}, schedule={"max_steps": 20}))
    error = shop.ended(name)
    assert error["exit_code"] == 5
    assert error["detail"].startswith("training has diverged at step ")
    warning = shop.rerun(name)
    assert warning is not None
    assert "lower the learning rate in a new job" in warning


def test_a_row_that_cannot_be_learned(shop: Shop) -> None:
    rows = shop.folder / "bad.jsonl"
    good = (write_data("sft", shop.folder / "good.jsonl")).read_text().splitlines()
    rows.write_text("\n".join([*good[:2], '{"messages": 7}']) + "\n")
    name = shop.create(shop.spec(dataset=str(rows)))
    error = shop.ended(name)
    assert error["exit_code"] == 2
    assert "bad.jsonl, line 3: " in error["detail"]
    warning = shop.rerun(name)
    assert warning is not None
    assert "correct the specification in a new job" in warning


def test_a_disk_that_is_full(shop: Shop) -> None:
    # A limit on the size of files stops a save where a full disk does; mounting one would need privileges.
    limit = ["/bin/sh", "-c", 'ulimit -f 1000; exec "$@"', "sh"]
    name = shop.create(shop.spec(save={"steps": 2}), command=limit)
    error = shop.ended(name)
    assert error["type"] == "disk_full", error
    assert error["detail"].startswith("the checkpoint of step 2 was not saved: ")
    warning = shop.rerun(name)
    assert warning is not None
    assert f"the disk is full; free space and use `nemo jobs rerun {name}" in warning


def test_a_module_that_is_not_there(shop: Shop) -> None:
    name = shop.create(shop.spec(), command=["/usr/bin/env", "PYTHONPATH="])
    error = shop.ended(name)
    assert error["message"].endswith("the Python module nemo_engines, which it needs, is not installed")
    assert "nemo_engines" in error["detail"]
    warning = shop.rerun(name)
    assert warning is not None
    assert "install it for /usr/bin/env and use" in warning
