"""Trainings of a tiny model with the real engine TRL, by themselves and as jobs of a service."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from helix.program import JOBS, Client, Program, until

from nemo_helix_server.engines import catalogue, environments, machine, sources
from nemo_trainer.contract import history, read_progress

TINY_MODEL = Path(__file__).parents[2] / "tests" / "nemo_engines" / "tiny_model.py"
STEPS = Path(__file__).with_name("steps.py")
ROWS = 400


class Engine:
    """TRL's interpreter, a model and rows of equal length."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cache = environments.cache_folder(dict(os.environ))
        recipe = catalogue.recipe("trl")
        self.python = environments.install(recipe, machine.found_device(), self._cache, report=print).python
        self._call(str(TINY_MODEL), str(folder / "model"))
        row = {"text": " ".join(f"What is {n} + {n}?" for n in range(12))}
        (folder / "rows.jsonl").write_text((json.dumps(row) + "\n") * ROWS, encoding="utf-8")

    @property
    def environ(self) -> dict[str, str]:
        """What a process of the engine is given; one thread, as a job's has by default."""
        return {**sources.engine_environment(self._cache, {}), "OMP_NUM_THREADS": "1"}

    def spec(self, *, steps: int, batch: int, every: int | None = None) -> dict[str, Any]:
        """An engine spec; ``every``: steps between two checkpoints."""
        return {
            "engine": "trl",
            "method": "sft",
            "model": str(self.folder / "model"),
            "dataset": str(self.folder / "rows.jsonl"),
            "output": "model",
            "finetuning": "full",
            "schedule": {"max_steps": steps},
            "batch": {"per_device": batch},
            "devices": {"kind": "cpu"},
            "max_seq_length": 128,
            "save": {"steps": every},
        }

    def cost(self, name: str, spec: Mapping[str, Any]) -> tuple[dict[str, list[float]], int]:
        """Milliseconds of steps with the contract and without, and of saves; the bytes of a checkpoint."""
        folder = self.folder / name
        folder.mkdir()
        report = folder / "report.json"
        spec_file = self._written(folder, {**spec, "output": str(folder / "model")})
        self._call(str(STEPS), "cost", spec_file, str(folder / "training"), str(report))
        newest = max((folder / "training" / "checkpoints").iterdir(), key=lambda path: int(path.name))
        return json.loads(report.read_text("utf-8")), sum(file.stat().st_size for file in newest.iterdir())

    def alone(self, spec: Mapping[str, Any], checkpoint: Path) -> float:
        """When the library alone, going on from a checkpoint, had done a step, as seconds of the clock."""
        report = self.folder / "alone.json"
        self._call(str(STEPS), "alone", self._written(self.folder, spec), str(report), str(checkpoint))
        return float(report.read_text("utf-8"))

    def _written(self, folder: Path, spec: Mapping[str, Any]) -> str:
        file = folder / "spec.json"
        file.write_text(json.dumps(spec), encoding="utf-8")
        return str(file)

    def _call(self, *words: str) -> None:
        argv = [str(self.python), "-P", *words]
        environ = {**os.environ, **self.environ}
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr[-2000:]}")


@dataclass(frozen=True)
class Job:
    """A training as a job of a service."""

    service: Program
    client: Client
    name: str

    @classmethod
    def create(cls, service: Program, client: Client, engine: Engine, spec: Mapping[str, Any]) -> Job:
        """Submit one step that can be paused."""
        step = {
            "name": "training",
            "environment": [{"name": name, "value": value} for name, value in engine.environ.items()],
            "executor": {
                "provider": "subprocess",
                "command": [str(engine.python), "-P", "-m", "nemo_engines.run"],
            },
            "config": dict(spec),
            "lifecycle": {"pause_deadline_seconds": 600},
        }
        body = {"source": "bench", "spec": {}, "platform_spec": {"steps": [step]}}
        return cls(service, client, str(client.post(JOBS, body)["name"]))

    @cached_property
    def folder(self) -> Path:
        """The job's directory."""
        return self.service.data_dir / "jobs" / "default" / str(self.client.get(f"{JOBS}/{self.name}")["id"])

    @property
    def trainer(self) -> Path:
        """Checkpoints, metrics and progress."""
        return self.folder / "storage" / "training"

    @property
    def run(self) -> Path:
        """The folder of the newest start."""
        return max((self.folder / "runs").iterdir(), key=lambda path: path.stat().st_ctime_ns)

    @property
    def progress(self) -> Mapping[str, Any]:
        """What the training said last."""
        return read_progress(self.trainer / "progress.json")

    def ask(self, action: str) -> None:
        """Pause, resume, rerun."""
        self.client.post(f"{JOBS}/{self.name}/{action}")

    def until(self, *statuses: str) -> str:
        """Wait for a status."""
        return until(lambda: self._is(statuses), f"{self.name} is {' or '.join(statuses)}", 0.01)

    def until_step(self, step: int) -> int:
        """Wait until so many steps are done; the last one in the metrics."""
        return until(lambda: self._at(step), f"{self.name} is at step {step}", 0.01)

    def steps(self) -> dict[int, dict[str, float]]:
        """Each step's values, once."""
        return {row.step: dict(row.values) for row in history(self.trainer / "metrics.jsonl")}

    def weights(self) -> str:
        """sha256 of what was trained."""
        return hashlib.sha256((self.folder / "storage/model/model.safetensors").read_bytes()).hexdigest()

    def _is(self, statuses: tuple[str, ...]) -> str:
        status = self.client.status(self.name)
        if status in {"error", "cancelled", "completed"} - set(statuses):
            sys.exit(f"{self.name} is {status}: {self.client.get(f'{JOBS}/{self.name}')['error_details']}")
        return status if status in statuses else ""

    def _at(self, step: int) -> int:
        metrics = self.trainer / "metrics.jsonl"
        done = max((row.step for row in history(metrics)), default=0) if metrics.exists() else 0
        return done if done >= step else 0
