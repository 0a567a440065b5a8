"""`gym eval check`: what would keep a submission from running, found out without a job.

`judge` compares a config with what a cluster says of itself, and is pure; `examine` asks the cluster and
the machine first. Each finding says what is so and, where it is wrong, what to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError, GymError
from nemo_gym.orchestration.config import campaign
from nemo_gym.orchestration.config.schema import SlurmCompute, SubmitConfig
from nemo_runs.durations import parse_duration
from nemo_runs.findings import Finding, FindingLevel, ok, passed, problem, unknown, warning
from nemo_runs.sizes import size_in_words
from nemo_slurm import job_rules
from nemo_slurm.facts import ClusterFacts
from nemo_slurm.job_rules import KeyNames, WantedJob

_LITTLE_SPACE = 1 << 20
"""KiB."""


def judge(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> list[Finding]:
    """What the cluster's own words say about a config; pure."""
    rules: Iterable[Callable[[SubmitConfig, SlurmCompute, ClusterFacts], Iterator[Finding]]] = (
        _job,
        _chain,
        _secrets,
        _containers,
    )
    return [finding for rule in rules for finding in rule(config, compute, facts)]


def refuse(judged: Iterable[Finding]) -> None:
    """Raise `ConfigError` for the first problem."""
    for finding in judged:
        if finding.verdict is FindingLevel.PROBLEM:
            raise ConfigError(finding.text)


def _wanted(config: SubmitConfig, compute: SlurmCompute) -> WantedJob:
    """A job of a benchmark, and how many of them are queued at once."""
    walltime = compute.walltime
    return WantedJob(
        account=compute.account,
        partition=next((pool.partition for pool in compute.node_pools.values()), None),
        nodes=compute.nodes,
        seconds=None
        if walltime is None
        else parse_duration(walltime, where=f"compute.{config.cluster}.walltime"),
        count=jobs_at_once(config),
    )


def jobs_at_once(config: SubmitConfig) -> int:
    """Jobs in the queue, successors included."""
    jobs = config.driver.benchmarks.values()
    models = len(campaign.shares(config))
    if models:  # one job for all benchmarks of a model
        return models * (1 + any(job.chain is not None for job in jobs))
    return len(jobs) + sum(job.chain is not None for job in jobs)


def _job(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    """What holds for any job on the cluster."""
    where = f"compute.{config.cluster}"
    wanted, pools = _wanted(config, compute), f"{where}.node_pools"
    named = wanted.partition is not None
    keys = KeyNames(
        account=f"{where}.account",
        partition=f"{pools}.{next(iter(compute.node_pools))}.partition" if named else pools,
        nodes=pools,
        walltime=f"{where}.walltime",
        longer="`resumable: true` lets a benchmark go on in further jobs",
    )
    yield from job_rules.judge(wanted, keys, facts)
    yield from job_rules.judge_limits(
        wanted,
        facts,
        lambda text: problem("submit limit", f"{text}; submit fewer benchmarks at a time (--only NAME)."),
    )


def _chain(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether jobs can queue their successors and see how their predecessors ended, as far as can be seen."""
    if all(job.chain is None for job in config.driver.benchmarks.values()):
        return
    name = _wanted(config, compute).partition
    found = job_rules.used_partition(name, facts.partitions or [])
    open_to = facts.alloc_nodes.get(found.name if found else name or "", "ALL")
    if open_to == "ALL":
        yield unknown(
            "successors",
            "no setting keeps jobs from calling sbatch; whether it is installed there shows in a job",
        )
    elif compute.queue_from == "job":
        where = f"compute.{config.cluster}.queue_from"
        yield problem("successors", f"{where}: jobs may be submitted from {open_to} only; set it to login.")
    else:
        yield ok(
            "successors",
            f"they are queued over ssh from the login node; jobs may be submitted from {open_to}",
        )
    if facts.accounting is None:
        yield ok("sacct", "accounting answers")
    else:
        text = "walltime of links is then taken from the controller, while it remembers them"
        yield warning("sacct", f"accounting does not answer ({facts.accounting}); {text}.")


def _secrets(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    del compute
    flags = facts.config.get("AccountingStoreFlags", "")
    owners: list[Any] = [config.driver, *config.services.values()]
    uses = any(value.startswith("host:") for owner in owners for value in owner.env.values())
    if uses and "job_script" in flags:
        yield warning(
            "secrets",
            "this cluster keeps job scripts, where `sacct -B` and its operators can read them, and values of "
            "`host:VAR` are in them; have the job read them from a file of yours instead.",
        )
    if config.otel is not None and config.otel.enabled and "job_env" in flags:
        yield warning(
            "secrets", "this cluster keeps the environments of jobs, and the telemetry token is in them."
        )


def _containers(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether ``srun`` can start containers, where the config wants it to."""
    named = [f"services.{name}.container" for name, one in config.services.items() if one.container]
    named += ["driver.container"] if config.driver.container else []
    if not named or compute.container_runtime not in (None, "pyxis"):
        return
    if facts.containers:
        yield ok("containers", "srun takes --container-image")
    elif facts.containers is None:
        yield unknown("containers", "srun did not say whether it takes --container-image")
    else:
        where = f"compute.{config.cluster}"
        text = (
            f"{named[0]}: srun takes no --container-image, so Pyxis is not there; set "
            f"{where}.container_runtime to apptainer if the site has that, else leave the container out and "
            f"load what it held in {where}.setup"
        )
        if compute.container_runtime is None:
            yield problem("containers", f"{text}.")
        else:  # somebody says that it is there: on compute nodes alone, perhaps
            yield warning("containers", f"{text}, unless it is there on compute nodes only.")


def judge_space(output_path: str, folder: str, *, writable: bool, free: int | None) -> Finding:
    """Whether results can be written; ``free`` is in KiB."""
    if not writable:
        return problem(
            "space",
            f"job.output_path: {output_path} cannot be made, since {folder} is not yours to write to.",
        )
    if free is None:
        return unknown("space", f"{folder} does not say how much is free")
    shown = f"{size_in_words(free * 1024)} are free at {folder}"
    return warning("space", f"{shown}; results may not fit.") if free < _LITTLE_SPACE else ok("space", shown)


def attempted(about: str, look: Callable[[], str]) -> Finding:
    """A finding from something that raises a `GymError` when it is not as it must be."""
    try:
        return ok(about, look())
    except GymError as error:
        return problem(about, str(error))


def to_json(found: list[Finding], config: Path) -> dict[str, Any]:
    """The document of ``--json``."""
    return {
        "schema_version": 1,
        "config": str(config),
        "ok": passed(found),
        "findings": [finding.to_json() for finding in found],
    }
