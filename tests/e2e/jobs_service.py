"""A Jobs service as its users start it, and a small real training to submit to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

NAME = "automodel-a1b2c3d4e5f6"


class JobsService:
    """`nemo services run` on a folder; it can be killed and started again where it was."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.log = folder / "service.log"
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        port = self.url.rpartition(":")[2] or "0"
        program = str(Path(sys.executable).with_name("nemo"))
        argv = [program, "services", "run", "--port", port, "--data-dir", str(self.data), "--json"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log.read_text()
        self.url = json.loads(line)["url"]

    def kill(self) -> None:
        self._end(lambda process: process.kill())

    def stop(self) -> None:
        self._end(lambda process: process.terminate())

    def _end(self, end: Any) -> None:
        if self._process is not None:
            end(self._process)
            self._process.wait(timeout=60)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


def training_job(**config: Any) -> dict[str, Any]:
    """A job of one step that can be paused: the example training with these options."""
    step = {
        "name": "training",
        "environment": [{"name": "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "value": "/storage"}],
        "executor": {"provider": "subprocess", "command": [sys.executable, "-m", "nemo_trainer.example"]},
        "config": config,
        "lifecycle": {"pause_deadline_seconds": 1800},
    }
    return {
        "name": NAME,
        "source": "customization",
        "spec": {"backend": "automodel"},
        "platform_spec": {"steps": [step]},
    }
