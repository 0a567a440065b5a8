"""A place for jobs of the `local` executor in a test: plans, stand-in programs, waiting, and tidying up."""

from __future__ import annotations

import os
import secrets
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.local import LocalExecutor
from nemo_gym.orchestration.executors.local_supervisor import MARKER
from nemo_gym.orchestration.plan.values import JobPlan, ServicePlan, Submission
from nemo_gym.orchestration.submit import staging
from nemo_runs.processes import trees
from nemo_runs.secret_refs import Reference

STAND_INS = Path(__file__).parent / "e2e" / "stand_ins"


def service(name: str = "policy", *words: str, model: str = "tiny", **changes: Any) -> ServicePlan:
    """A stand-in model server."""
    argv = [sys.executable, "-S", str(STAND_INS / "serve.py"), "{port}", model, *words]
    values: dict[str, Any] = {"name": name, "kind": "command", "argv": argv, "shell": None, "port": None}
    values |= {"model_name": model, "health_path": "/health", "health_timeout": 20}
    return ServicePlan(**(values | changes))


@dataclass
class Workplace:
    """Where jobs run; everything that is still there is ended by `tidy`."""

    folder: Path
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    grace: float = 3.0
    jobs: list[JobRef] = field(default_factory=list)
    gym_job_id: str = field(default_factory=lambda: f"gym-job-20270115T080000Z-{secrets.token_hex(3)}")
    """Another one in every test: jobs are told apart by it, also by tests that run at the same moment."""

    @property
    def gym(self) -> Path:
        """A program `gym` with a stand-in driver."""
        path = self.folder / "gym"
        if not path.exists():
            path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_INS / "gym.py"}" "$@"\n')
            path.chmod(0o755)
        return path

    @property
    def executor(self) -> LocalExecutor:
        """An executor that has seen nothing yet."""
        return LocalExecutor(environ=self.environ, grace=self.grace)

    def plan(self, benchmark: str = "arithmetic", driver: str = "exit=0", **changes: Any) -> JobPlan:
        """A job with the words that its stand-in driver obeys."""
        job_dir = RunPaths(self.folder / self.gym_job_id).job(benchmark).job_dir
        values: dict[str, Any] = {"gym_job_id": self.gym_job_id, "benchmark": benchmark, "job_dir": job_dir}
        values |= {"services": [], "policy": None, "policy_host": "localhost", "run": {}, "prepare": None}
        values |= {"command": None, "gym": self.gym, "walltime": None}
        values["env"] = {"DRIVER": Reference("lit", driver), **changes.pop("env", {})}
        return JobPlan(**(values | changes))

    def submission(self, *plans: JobPlan, max_parallel: int = 4) -> Submission:
        """All of one run directory."""
        config = cast("Any", None)
        run_dir = plans[0].job_dir.parent
        return Submission(
            gym_job_id=run_dir.name,
            run_dir=run_dir,
            cluster="here",
            jobs=list(plans),
            max_parallel=max_parallel,
            config=config,
        )

    def submit(self, *plans: JobPlan, max_parallel: int = 4) -> list[JobRef]:
        """Stage and queue; every benchmark must be queued."""
        submission = self.submission(*plans, max_parallel=max_parallel)
        staging.stage(submission)
        answers = self.executor.submit(submission)
        assert [answer.error for answer in answers] == [None] * len(plans)
        references = [
            JobRef(answer.job_id or "", plan.job_dir) for answer, plan in zip(answers, plans, strict=True)
        ]
        self.jobs += references
        return references

    def look(self, job: JobRef) -> JobObservation:
        """One look through an executor that has seen nothing yet."""
        return self.executor.observe([job])[job.job_id]

    def wait(self, job: JobRef, *states: JobState, within: float = 120.0) -> JobObservation:
        """Wait until a job is in one of the states, by default any final one."""
        deadline = time.monotonic() + within
        while True:
            seen = self.look(job)
            if seen.state in states or (not states and seen.state.final):
                return seen
            if time.monotonic() > deadline:
                raise AssertionError(f"{job.job_id} is still {seen}; it said: {self.said(job)}")
            time.sleep(0.05)

    def run(self, plan: JobPlan) -> JobObservation:
        """Submit one job and wait for its end."""
        return self.wait(self.submit(plan)[0])

    def said(self, job: JobRef) -> str:
        """What the job script wrote."""
        path = JobPaths(job.job_dir).output(job.job_id)
        return path.read_text() if path.exists() else ""

    def left(self, job: JobRef) -> list[int]:
        """Processes of a job that run now."""
        return trees.marked(MARKER, f"{job.job_dir.parent.name}/{job.job_dir.name}/{job.job_id}.0")

    def tidy(self) -> None:
        """End every job of this test."""
        self.executor.cancel(self.jobs)
        for job in self.jobs:
            if not self.look(job).state.final:
                self.wait(job)


def until(condition: Any, *, within: float = 60.0) -> Any:
    """Wait until a condition holds; returns its value."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError("it did not come true in time")
        time.sleep(0.03)
    return value
