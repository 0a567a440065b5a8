"""Evidence for tests: small files of a benchmark's folder by name, and what an executor sees of its jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from nemo_gym.chain.evidence import Evidence, TimedObservation
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.orchestration.status.link_files import parse

NOW = 1_800_000_000.0
ID = "gym-job-20270115T080000Z-00000a"


def link(name: str, *, started: float | None = NOW - 600, **values: object) -> dict[str, str]:
    """The files of one run of a job; ``exit`` stands for ``exit.json``."""
    files = {} if started is None else {"started": f"{started:.0f}\n"}
    for key, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        files["exit.json" if key == "exit" else key] = text
    return {f"links/{name}/{key}": text for key, text in files.items()}


def collected(state: str = "complete", status: int = 0, recorded: int = 10, **more: object) -> str:
    """What a collector said at its end."""
    said = {"state": state, "status": status, "expected": 10, "recorded": recorded, "new": recorded}
    return json.dumps({**said, "hopeless": None, **more})


def progress(done: int = 4, *, state: str = "running", age: float = 1.0, **more: object) -> dict[str, str]:
    """A collector's last word."""
    said = {"state": state, "expected": 10, "done": done, "new": done, "mean_reward": 0.5, "eta_s": 60.0}
    said |= {"rollouts_per_s": 0.1, "updated_at": NOW - age, "mean_reward_all": 0.25, **more}
    return {"artifacts/progress.json": json.dumps(said)}


def decision(action: str, chain: str, reason: str, evidence: str = "") -> str:
    """What a job decided from the end of the one before."""
    return f"{action} {chain}\n{reason}\n{evidence}\n"


def saw(state: str, reason: str = "", **more: object) -> JobObservation:
    """One observation."""
    return JobObservation(JobState(state), reason, **more)


def known(
    *files: dict[str, str],
    seen: dict[str, JobObservation] | None = None,
    first: str | None = "1",
    age: float | None = None,
    silent: str = "",
    **changes: object,
) -> Evidence:
    """What is known about a benchmark; ``age`` makes the observations old."""
    merged = {name: text for some in files for name, text in some.items()}
    when = NOW if age is None else NOW - age
    found = {job: TimedObservation(what, when, fresh=age is None) for job, what in (seen or {}).items()}
    evidence = Evidence(
        gym_job_id=ID,
        benchmark="gpqa",
        job_dir=Path("/runs/a/gpqa"),
        where="this machine",
        first_job=first,
        now=NOW,
        asked_at=NOW,
        seen=found,
        silent=silent,
        **parse(merged),
    )
    return replace(evidence, **changes)
