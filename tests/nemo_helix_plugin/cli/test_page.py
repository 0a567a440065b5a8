"""Pause, resume, control and rerun from the command line, against the real service and real processes."""

import json
import re
import subprocess
import sys
import time
from datetime import datetime

import pytest

pytestmark = pytest.mark.e2e

NAME = "automodel-a1b2c3d4e5f6"
STORED = {"name": "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "value": ""}
WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)\n"


@pytest.fixture
def real(tmp_path, monkeypatch):
    """A Jobs service of its own; it is ended, with what it runs, at the end."""
    monkeypatch.setenv("NEMO_LEASES_DIR", str(tmp_path / "leases"))
    log = tmp_path / "service.log"
    argv = [sys.executable, "-m", "nemo_helix_plugin.cli", "services", "run", "--port", "0"]
    with log.open("wb") as file:
        program = subprocess.Popen([*argv, "--data-dir", str(tmp_path / "data")], stdout=file, stderr=file)
    try:
        monkeypatch.setenv("NHX_BASE_URL", until(lambda: re.search(r"http://[\d.:]+", log.read_text()))[0])
        yield
    finally:
        program.terminate()
        program.wait(60)


def until(look, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def body(gate):
    train = ["-m", "nemo_trainer.example", "--steps", "80", "--step-seconds", "0.05", "--save-every", "5"]
    return {
        "source": "customization",
        "spec": {"backend": "automodel"},
        "platform_spec": {
            "steps": [
                {
                    "name": "model-and-dataset-download",
                    "executor": {
                        "provider": "subprocess",
                        "command": [sys.executable, "-c", WAITS, str(gate)],
                    },
                },
                {
                    "name": "training",
                    "executor": {
                        "provider": "subprocess",
                        "command": [sys.executable, *train, "--fail-at", "60", "--fail-how", "oom"],
                    },
                    "environment": [STORED],
                    "lifecycle": {"pause_deadline_seconds": 60},
                },
            ]
        },
    }


def test_every_command_line_of_the_page_does_what_the_page_says(real, nemo, tmp_path):
    def step():
        found = nemo("jobs", "get", NAME, "--json").document
        return (found["status_details"] or {}).get("step") or 0

    (tmp_path / "job.json").write_text(json.dumps(body(tmp_path / "gate")))
    assert nemo("jobs", "create", NAME, "--input-file", tmp_path / "job.json").status == 0
    refused = nemo("jobs", "pause", NAME, "--workspace", "default")
    assert refused.status == 3
    assert "model-and-dataset-download" in refused.err
    (tmp_path / "gate").touch()
    until(lambda: step() >= 3)

    assert nemo("jobs", "pause", NAME, "--workspace", "default").document["status"] in {"pausing", "paused"}
    assert nemo("jobs", "watch", NAME, "--poll-interval", "0.2", "--timeout", "60").status == 75
    paused = nemo("jobs", "get", NAME, "--json").document
    saved = nemo("jobs", "checkpoints", "list", NAME, "--json").document
    assert (paused["status"], saved[0]["reason"], saved[0]["verified"]) == ("paused", "pause", True)

    before = datetime.fromisoformat(paused["storage_expires_at"])
    kept = nemo("jobs", "control", NAME, "--workspace", "default", "--pause-ttl-seconds", "1209600").document
    longer = datetime.fromisoformat(kept["storage_expires_at"]) - before
    assert round(longer.total_seconds()) == 1209600 - 604800

    assert nemo("jobs", "rerun", NAME, "--workspace", "default").status == 3
    assert nemo("jobs", "resume", NAME, "--workspace", "default").status == 0
    failed = nemo("jobs", "watch", NAME, "--poll-interval", "0.2", "--timeout", "60")
    assert failed.status == 1
    assert "ended in error" in failed.err

    listing = ("jobs", "list", "--workspace", "default", "--filter.source", "customization")
    assert [job["name"] for job in nemo(*listing, "--filter.status", "error").document] == [NAME]
    assert nemo("jobs", "resume", NAME, "--workspace", "default").status == 3
    again = nemo("jobs", "rerun", NAME, "--workspace", "default").document
    assert "rerun_warning" in again["status_details"]
    assert nemo("jobs", "watch", NAME, "--poll-interval", "0.2", "--timeout", "60").status == 0
    attempts = nemo("jobs", "attempts", "list", NAME, "--json").document
    assert [(attempt["seq"], attempt["status"]) for attempt in attempts] == [(1, "completed"), (0, "error")]
    assert nemo(*listing, "--filter.status", "error").document == []
    assert nemo("jobs", "delete", NAME, "--yes").status == 0
