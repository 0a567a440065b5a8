"""A job that an earlier version paused goes on from its checkpoint, and ends as if it had never paused.

``tests/fixtures/old_paused_job`` is the data directory of an earlier version's service: its database as SQL,
the folder of one job of the example training (seed 7, 40 steps), paused after step 21, and in
``uninterrupted.json`` the weights with which that version ended the same training without a pause. The key
that signs the tokens of steps is not part of it: a service makes one where there is none.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import relocated
from tests.e2e.jobs_service import NAME, JobsService

from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.jobs.types import TERMINAL, HelixJobStatus

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

STORED = relocated.FIXTURES / "old_paused_job"
JOB_ID = "platform-job-AWRDYvKiAgNf4PNErACb51"
STEPS, PAUSED_AFTER = 40, 21
PAUSED_AT = 1_796_029_743
"""UTC seconds. A paused job keeps its storage for days only, so a copy is made to have paused just now."""
SAME = 1e-9
"""Part by which numbers may differ that two mathematical libraries computed."""


def place(data: Path) -> None:
    """The data directory, as the earlier version left it a minute ago."""
    relocated.place(STORED / "data", data, data)
    for folder in (data, *data.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o700)
    later = int(time.time()) - 60 - PAUSED_AT
    moment = re.compile(r"\b(17960\d{5})(\d{6})\b")  # microseconds of that day
    text = relocated.text_of(STORED / "jobs.sql", data)
    text = moment.sub(lambda found: f"{int(found[1]) + later}{found[2]}", text)
    database = sqlite3.connect(data / "jobs.db")
    database.executescript(text)
    database.close()
    (data / "jobs.db").chmod(0o600)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsService]:
    """This version's service on that data directory."""
    monkeypatch.setenv("NEMO_LEASES_DIR", str(tmp_path / "leases"))
    service = JobsService(tmp_path)
    place(service.data)
    service.start()
    monkeypatch.setenv("NHX_BASE_URL", service.url)
    yield service
    service.stop()


def losses(path: Path) -> dict[int, float]:
    """The loss of each step; fails when a step is recorded twice."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    points = [(row["step"], row["values"]["train_loss"]) for row in rows if "step" in row]
    assert len(points) == len(dict(points)), "a step is recorded twice"
    return dict(points)


def uninterrupted(folder: Path) -> Path:
    """The same training by this version, in one go."""
    argv = [sys.executable, "-m", "nemo_trainer.example", "--dir", str(folder)]
    argv += ["--steps", str(STEPS), "--seed", "7", "--save-every", "6"]
    subprocess.run(argv, check=True, capture_output=True)
    return folder


def weights(path: Path) -> list[float]:
    found = json.loads(path.read_text())["weights"]
    assert isinstance(found, list)
    return found


def test_an_old_paused_job_resumes_to_the_end_of_an_uninterrupted_training(
    service: JobsService, tmp_path: Path
) -> None:
    storage = service.data / "jobs" / "default" / JOB_ID / "storage" / "training"
    recorded = (storage / "metrics.jsonl").read_bytes()
    with NemoClient.from_config() as client:
        job = client.jobs.get_job(name=NAME, workspace="default").data()
        assert (job.id, job.status, job.reason) == (JOB_ID, HelixJobStatus.PAUSED, "paused_by_user")
        checkpoints = client.jobs.list_job_checkpoints(job=NAME, workspace="default").page().items
        assert {one.step: one.reason for one in checkpoints} == {18: "periodic", PAUSED_AFTER: "pause"}
        client.jobs.resume_job(name=NAME, workspace="default")
        end = time.monotonic() + 180
        while job.status not in TERMINAL:
            assert time.monotonic() < end, job
            time.sleep(0.1)
            job = client.jobs.get_job(name=NAME, workspace="default").data()
        assert job.status == HelixJobStatus.COMPLETED, job.error_details
        logs = [line.message for line in client.jobs.list_job_logs(name=NAME, workspace="default").items()]
        changes = [
            change.to_status
            for change in client.jobs.list_transitions(name=NAME, workspace="default").items()
            if change.step is None
        ]
    assert f"paused after step {PAUSED_AFTER}" in logs, (
        "the log of the earlier version's start is still there"
    )
    assert f"continuing from step {PAUSED_AFTER}, {STEPS} steps in all" in logs
    assert job.attempt_id == "platform-job-attempt-Md5KjoZS61vxYMhZRwyoyM"
    started = ["created", "pending", "active"]
    assert changes == [
        "creation_pending",
        *started,
        "pausing",
        "paused",
        "resuming",
        *started[1:],
        "completed",
    ]

    assert (storage / "metrics.jsonl").read_bytes().startswith(recorded)
    whole = uninterrupted(tmp_path / "whole")
    assert losses(storage / "metrics.jsonl") == pytest.approx(losses(whole / "metrics.jsonl"), rel=SAME)
    series = job.status_details["metrics"]["train_loss"]
    assert [point["step"] for point in series] == list(range(1, STEPS + 1))
    assert weights(storage / "model" / "weights.json") == pytest.approx(
        weights(whole / "model" / "weights.json"), rel=SAME
    )
    assert weights(whole / "model" / "weights.json") == pytest.approx(
        weights(STORED / "uninterrupted.json"), rel=SAME
    )
