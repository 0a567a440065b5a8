"""The program `nemo services` as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

NEMO = Path(sys.executable).parent / "nemo"
TIMEOUT = 60
JOBS = "/apis/jobs/v2/workspaces/default/jobs"


def until(condition, what):
    """What a condition gives once it is true; fails when that takes too long."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)
    return found


class Program:
    """One `nemo services run`."""

    def __init__(self, data_dir, *options, environ=None, port=0):
        self.data_dir = data_dir
        self.errors = data_dir.parent / f"stderr-{time.monotonic_ns()}"
        argv = [NEMO, "services", "run", "--port", str(port), "--data-dir", data_dir, "--json", *options]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                list(map(str, argv)),
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(environ or {})},
            )
        line = self.process.stdout.readline()
        self.said = json.loads(line) if line else None
        self.url = self.said["url"] if self.said else None

    def stderr(self):
        return self.errors.read_text()

    def client(self, token=None):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    def end(self, number=signal.SIGTERM):
        """Signal it, wait for its end, and give its exit status."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)


def cancel_everything(service):
    try:
        with service.client() as http:
            ended = ("completed", "error", "cancelled", "deletion_pending")
            if http.get("/status").is_error:
                return  # it asks for tokens, and such a test ends its jobs itself
            for job in http.get("/apis/jobs/v2/workspaces/-/jobs?page_size=1000").json()["data"]:
                if job["status"] not in ended:
                    http.post(f"/apis/jobs/v2/workspaces/{job['workspace']}/jobs/{job['name']}/cancel")

            def all_ended():
                jobs = http.get("/apis/jobs/v2/workspaces/-/jobs?page_size=1000").json()["data"]
                return all(job["status"] in ended for job in jobs)

            until(all_ended, "every job has ended")
    except httpx.HTTPError:
        pass


def nemo(*arguments, environ=None):
    """Run `nemo` to its end."""
    return subprocess.run(
        [str(NEMO), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env={**os.environ, **(environ or {})},
    )


def training(name, *options, step_seconds="0.02", deadline=60):
    """A job whose step is the example training that ships."""
    argv = [sys.executable, "-m", "nemo_trainer.example", "--step-seconds", step_seconds, *map(str, options)]
    step = {
        "name": "training",
        "executor": {"provider": "subprocess", "command": argv},
        "lifecycle": {"pause_deadline_seconds": deadline},
    }
    return {"name": name, "source": "test", "spec": {}, "platform_spec": {"steps": [step]}}
