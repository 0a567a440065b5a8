"""Runs the scripts of a fake cluster's jobs with a real bash, and ends them when the cluster does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from nemo_slurm.testing.jobs import FakeJob
from nemo_slurm.testing.model import ClusterModel


@dataclass
class Process:
    """One run of a job's script."""

    number: str
    restart: int
    popen: subprocess.Popen[bytes]


class BashJobs:
    """Processes of running jobs. Nothing happens by itself: `step` does what is due, `run` all of it."""

    def __init__(self, state: Callable[[], AbstractContextManager[ClusterModel]], path: Path) -> None:
        self._state = state
        self._path = path
        self._spool = path.parent / "spool"
        self.running: list[Process] = []
        self.strays: list[Process] = []
        """Processes of failed nodes, which nobody ended."""

    def step(self, *, grace: float = 2.0, stray_nodes: bool = False) -> bool:
        """Note ended scripts, end those of ended jobs, start those of started jobs; False when nothing runs.

        A job that the cluster ended gets SIGTERM and, after ``grace`` seconds, SIGKILL. With ``stray_nodes``
        a job in NODE_FAIL is left alone and goes on as a stray.
        """
        for process in list(self.running):
            self._look(process, grace, stray_nodes)
        with self._state() as model:
            started = [job for job in model.jobs.values() if job.state == "RUNNING" and not self._has(job)]
        self.running += [self._start(job) for job in started]
        return bool(self.running)

    def run(self, *, timeout: float = 30, grace: float = 2.0) -> None:
        """Step until no script runs. Raises `TimeoutError`."""
        end = time.monotonic() + timeout
        while self.step(grace=grace):
            if time.monotonic() > end:
                raise TimeoutError(f"jobs {[process.number for process in self.running]} still run")
            time.sleep(0.02)

    def close(self) -> None:
        """Kill everything that was started."""
        for process in (*self.running, *self.strays):
            _signal(process, signal.SIGKILL)
            process.popen.wait()
        self.running, self.strays = [], []

    def _look(self, process: Process, grace: float, stray_nodes: bool) -> None:
        status = process.popen.poll()
        with self._state() as model:
            job = model.jobs[process.number]
            current = job.state == "RUNNING" and job.restarts == process.restart
            failed_node = (job.runs[-1].state if job.restarts > process.restart else job.state) == "NODE_FAIL"
            if current and status is not None:
                model.end(
                    job.id, "COMPLETED" if status == 0 else "FAILED", status if status >= 0 else 128 - status
                )
        if current and status is None:
            return
        self.running.remove(process)
        if failed_node and stray_nodes and status is None:
            self.strays.append(process)
            return
        self._end(process, grace)

    def _end(self, process: Process, grace: float) -> None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.popen.wait(grace)
        _signal(process, signal.SIGKILL)
        process.popen.wait()

    def _has(self, job: FakeJob) -> bool:
        return any((process.number, process.restart) == (job.id, job.restarts) for process in self.running)

    def _start(self, job: FakeJob) -> Process:
        self._spool.mkdir(exist_ok=True)
        script = self._spool / f"{job.id}.{job.restarts}"
        script.write_text(job.text, encoding="utf-8", errors="surrogateescape")
        output = Path(job.folder, job.options.get("output", "slurm-%j.out").replace("%j", job.id))
        with output.open("ab") as out:
            popen = subprocess.Popen(
                ["bash", str(script), *job.arguments],
                cwd=job.folder,
                env=self._environment(job),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return Process(job.id, job.restarts, popen)

    def _environment(self, job: FakeJob) -> dict[str, str]:
        given = {
            "SLURM_JOB_ID": job.id,
            "SLURM_JOB_NAME": job.name,
            "SLURM_JOB_NODELIST": "n1",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_PARTITION": job.options["partition"],
            "SLURM_SUBMIT_DIR": job.folder,
            "SLURMD_NODENAME": "n1",
            "PATH": f"{self._path}:{job.environment.get('PATH', os.defpath)}",
        }
        if job.restarts:
            given["SLURM_RESTART_COUNT"] = str(job.restarts)
        return job.environment | given


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.popen.pid, number)
