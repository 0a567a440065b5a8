"""Chains of jobs on the real Slurm: the real collector, and a stand-in model server that stops answering.

The server of each job answers two questions and keeps the others waiting, so a chain stands still at a known
place, does not end before it is told to, and needs one job for each two questions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import collector_reports
from tests.local_jobs import STAND_INS, Workplace, service
from tests.slurm.lab import RealSlurm, until

import nemo_gym
from nemo_gym.chain.budget import Budget
from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_gym.orchestration.config.sbatch_options import sbatch_options
from nemo_gym.orchestration.config.schema import SlurmCompute
from nemo_gym.orchestration.executors.slurm import SlurmExecutor
from nemo_gym.orchestration.plan.values import JobPlan, SlurmPlan
from nemo_gym.orchestration.submit import staging
from nemo_gym.rollouts.scores.certificate import certify
from nemo_runs.durable.journal import read_journal
from nemo_slurm.cluster import SlurmJob
from nemo_slurm.observing import has_ended
from nemo_slurm.records import QueueRow

GYM = Path(sys.executable).with_name("gym")
SOURCES = Path(nemo_gym.__file__).parents[1]
ANSWERS = 2
"""What one server answers before it falls silent."""
QUICK = {
    "NEMO_GYM_CHAIN_SECONDS": "1",
    "NEMO_GYM_LOOKUP_SECONDS": "1",
    "NEMO_GYM_STOP_SECONDS": "2",
    "NEMO_GYM_DRAIN_SECONDS": "4",
}
WAIT = 60.0
"""Seconds that anything may take on a machine that has much to do."""


def together(*plays: Callable[[], None]) -> None:
    """Let several chains run at the same moment; failures are raised when all are through."""
    with ThreadPoolExecutor(len(plays)) as pool:
        found = [done.exception() for done in [pool.submit(play) for play in plays]]
    failures = [error for error in found if isinstance(error, Exception)]
    if failures:
        raise failures[0] if len(failures) == 1 else ExceptionGroup("chains", failures)


@dataclass
class Chains:
    """Starts chains in one folder, as one submission each."""

    slurm: RealSlurm
    place: Workplace = field(init=False)

    def __post_init__(self) -> None:
        self.place = Workplace(self.slurm.folder)
        self.slurm.prefix = self.slurm.prefix.replace("/", "-")
        program = self.slurm.folder / "real-gym"
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCES}" exec "{GYM}" "$@"\n')
        program.chmod(0o755)
        self.program = program

    def start(
        self,
        name: str,
        *,
        links: int = 2,
        words: str = "",
        partition: str = "main",
        node: str | None = None,
        budget: Budget | None = None,
        extra: dict[str, Any] | None = None,
        compute: dict[str, Any] | None = None,
        run_changes: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Chain:
        """Queue a chain that needs ``links`` jobs; ``words`` are further options of its server."""
        job_dir = self.place.folder / f"run-{name}" / name
        args = {"mem": "300M", **({"nodelist": node} if node else {}), **(extra or {})}
        settings = SlurmCompute(
            type="slurm",
            account="lab",
            walltime="00:05:00",
            node_pools={"all": {"partition": partition}},  # type: ignore[dict-item]
            extra_args=args,
            **(compute or {}),
        )
        options = sbatch_options("lab", settings, name, job_dir)
        cluster = SlurmPlan(
            options=options,
            runtime="none",
            kill_on_invalid_dep=settings.kill_on_invalid_dep,
            queue_from=settings.queue_from,
        )
        serve = f"exec {sys.executable} -S {STAND_INS / 'serve.py'} {{port}} tiny key answers={ANSWERS}"
        policy = service(shell=f"{serve} die-when=$SLURM_JOB_ID.die {words}", argv=None)
        values: dict[str, Any] = {
            "gym": self.program,
            "run": self._run(job_dir, links * ANSWERS) | (run_changes or {}),
        }
        values |= {"gym_job_id": f"{self.slurm.prefix}{name}", "job_dir": job_dir}
        values |= {"services": [policy], "policy": "policy", "slurm": cluster, "budget": budget or Budget()}
        values |= {"benchmark": name, "prepare": None, "command": None, "policy_host": "localhost"}
        plan = JobPlan(**{**values, "walltime": 300, **changes})
        submission = self.place.submission(plan)
        staging.stage(submission)
        [answer] = SlurmExecutor(self.slurm.cluster).submit(submission)
        assert answer.job_id is not None, answer.error
        return Chain(
            self.slurm, name, JobPaths(job_dir), f"{plan.gym_job_id}/", links * ANSWERS, answer.job_id
        )

    def _run(self, job_dir: Path, tasks: int) -> dict[str, Any]:
        data = self.place.folder / f"{tasks}-sums.jsonl"
        rows = [{"question": f"What is {number} + 1?", "expected_answer": "12"} for number in range(tasks)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        benchmark = {
            "name": "sums",
            "datasets": {"benchmark": {"jsonl_fpath": str(data)}},
            "prompt": {"user": "{question}"},
            "verifier": {"type": "match", "mode": "numeric"},
        }
        values = {"benchmark": benchmark, "num_samples_in_parallel": ANSWERS + 1, "drain_margin_s": 0.5}
        values |= {"output_jsonl_fpath": str(JobPaths(job_dir).rollouts.output), "require_complete": True}
        return {**values, "resume_from_cache": True, "policy_api_key": "host:NEMO_GYM_POLICY_API_KEY"}


@dataclass
class Chain:
    """One chain and what can be seen of it."""

    slurm: RealSlurm
    name: str
    paths: JobPaths
    prefix: str
    tasks: int
    first: str

    # what happens

    def at_work(self, number: int) -> str:
        """Wait until the ``number``-th driver has done all it can do; the job's id."""

        def there() -> bool:
            drivers = self.events("driver_started")
            return len(drivers) >= number and self.rows() >= number * ANSWERS

        self.until(there)
        return str(self.events("driver_started")[-1]["job_id"])

    def until(self, look: Callable[[], Any], timeout: float = WAIT) -> Any:
        """As `until`; what the jobs said goes with the failure."""
        try:
            return until(look, timeout=timeout)
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}\n{self.said()}") from None

    def times_out(self, job: str) -> None:
        """Let the time limit of a job be reached now."""
        self.slurm.control("update", f"JobId={job}", "TimeLimit=0")

    def gone(self, job: str) -> None:
        """Wait until a run of a job is over as the controller sees it."""
        self.until(lambda: self.state(job) != "RUNNING")

    def queued(self) -> list[QueueRow]:
        """Jobs of the chain that wait, run, are ending, or may come back."""
        return [row for row in self.slurm.cluster.queue_of(self.prefix) if not has_ended(row.state)]

    def state(self, job: str) -> str:
        """What the controller says of a job now."""
        seen = self.slurm.cluster.observe([SlurmJob(job)])[SlurmJob(job)]
        return seen.state.name if seen.state else ""

    def waiting(self, *but: str) -> str:
        """The one successor that waits, another one than ``but``."""

        def look() -> str | None:
            found = [row.id for row in self.queued() if row.state.name == "PENDING" and row.id not in but]
            assert len(found) < 2, found
            return found[0] if found else None

        return str(self.until(look))

    # what is known afterwards

    def link(self, job: str, restart: int = 0) -> LinkPaths:
        return self.paths.link(job, restart)

    def decision(self, job: str, restart: int = 0) -> list[str]:
        return self.link(job, restart).decision.read_text().splitlines()

    def events(self, name: str) -> list[dict[str, Any]]:
        if not self.paths.events.exists():
            return []
        return [event for event in read_journal(self.paths.events) if event["event"] == name]

    def rows(self) -> int:
        output = self.paths.rollouts.output
        return len(output.read_text().splitlines()) if output.exists() else 0

    def jobs(self) -> list[str]:
        """The file ``.gym_job_chain``."""
        return (self.paths.job_dir / ".gym_job_chain").read_text().split()

    def number(self, name: str) -> int:
        """A count of the chain, from its file."""
        return int((self.paths.job_dir / name).read_text())

    def said(self) -> str:
        folders = (self.paths.job_dir.glob("slurm-*.out"), self.paths.logs.glob("*.log"))
        texts = [f"{path.name}: {path.read_text()[-2000:]}" for files in folders for path in sorted(files)]
        return "\n".join([*texts, self.paths.events.read_text() if self.paths.events.exists() else ""])

    def over(self) -> None:
        """Wait until nothing of the chain is in the queue."""
        self.until(lambda: not self.queued())

    def completed(self, *, links: int, retries: int = 0, lost: int = 0) -> None:
        """Wait for the end: every rollout is there once, and the counts are what really was.

        ``links`` jobs have worked, and ``lost`` of the rollouts' attempts counted against them.
        """
        self.over()
        certificate = certify(self.paths.rollouts)
        assert certificate.valid, (self.name, certificate.problems, self.said())
        assert (certificate.expected, certificate.present) == (self.tasks, self.tasks)
        assert len(self.jobs()) == len(set(self.jobs())) == links, self.said()
        assert self.number(".gym_infra_retries") == retries, self.said()
        assert sum(self.failures()) == lost, self.said()
        last = collector_reports.read(self.link(*self.last()).collected)
        assert (last["state"], last["recorded"]) == ("complete", str(self.tasks))
        assert self.number(".gym_accumulated_walltime") == sum(self.allocated()[:-1]), self.said()

    def last(self) -> tuple[str, int]:
        """Job and restart count of the last run that worked."""
        event = self.events("driver_started")[-1]
        return str(event["job_id"]), int(event["restart"])

    def failures(self) -> list[bool]:
        """Failed attempts: whether each cost its rollout one of the attempts that it has."""
        path = self.paths.rollouts.failures
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [row.get("_ng_failure_counted", True) for row in rows]

    def allocated(self) -> list[int]:
        """Seconds of every run of every job that worked, as accounting has them."""
        words = ["sacct", "-nPXD", "-o", "JobID,Submit,Elapsed,ElapsedRaw,State", "-j", ",".join(self.jobs())]

        def look() -> list[list[str]] | None:
            done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ)
            found = [line.split("|") for line in done.stdout.splitlines()]
            return None if any(row[4] in ("RUNNING", "PENDING", "COMPLETING") for row in found) else found

        return [int(row[3]) for row in sorted(self.until(look), key=lambda row: (int(row[0]), row[1]))]
