"""`gym eval check`: what would keep a submission from running, found out without a job.

`judge` compares a config with what a cluster says of itself, and is pure; `examine` asks the cluster and
the machine first. Each finding says what is so and, where it is wrong, what to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError, GymError
from nemo_gym.orchestration.config.schema import SlurmCompute, SubmitConfig
from nemo_runs.counts import counted
from nemo_runs.durations import parse_duration, slurm_time
from nemo_runs.findings import Finding, FindingLevel, ok, passed, problem, unknown, warning
from nemo_runs.sizes import size_in_words
from nemo_slurm.facts import ClusterFacts
from nemo_slurm.records import Partition

_LITTLE_SPACE = 1 << 20
"""KiB."""


def judge(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> list[Finding]:
    """What the cluster's own words say about a config; pure."""
    rules: Iterable[Callable[[SubmitConfig, SlurmCompute, ClusterFacts], Iterator[Finding]]] = (
        _partition,
        _account,
        _limits,
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


def _used(compute: SlurmCompute, partitions: list[Partition]) -> tuple[str | None, Partition | None]:
    """The partition of a job: its name as given, and what the cluster says of it."""
    name = next((pool.partition for pool in compute.node_pools.values()), None)
    if name is None:
        return None, next((partition for partition in partitions if partition.default), None)
    return name, next((partition for partition in partitions if partition.name == name), None)


def _partition(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    where = f"compute.{config.cluster}"
    if facts.partitions is None:
        yield unknown("partition", "the controller did not say which partitions there are")
        return
    name, found = _used(compute, facts.partitions)
    there = ", ".join(partition.name for partition in facts.partitions) or "none"
    if name is not None and "," in name:
        yield unknown("partition", f"{name}: the scheduler chooses among them, their limits are not compared")
        return
    if found is None:
        if name is None:
            yield unknown(
                "partition",
                f"there is no default partition among {there}; unless the site chooses one, sbatch refuses "
                f"the job: name one in {where}.node_pools",
            )
        else:
            path = f"{where}.node_pools.{next(iter(compute.node_pools))}.partition"
            yield problem("partition", f"{path}: there is no partition {name}; there is {there}.")
        return
    if found.up is None:
        yield unknown("partition", f"the state of {found.name} cannot be read; sbatch will say more")
    elif not found.up:
        yield problem("partition", f"{found.name} is not up and takes no jobs; choose another of {there}.")
    if found.accounts is not None and not _is_one_of(compute.account, found.accounts):
        allowed = ", ".join(found.accounts)
        yield problem("partition", f"{where}.account: {found.name} is open to {allowed} only.")
    if found.max_nodes is not None and compute.nodes > found.max_nodes:
        most = f"{found.name} gives a job at most {found.max_nodes} nodes"
        yield problem("nodes", f"{where}.node_pools: {compute.nodes} nodes are asked for, but {most}.")
    if found.unread:
        said = ", ".join(found.unread)
        yield unknown("limits", f"{found.name} has {said}, which cannot be read: it is not compared")
    yield _walltime(where, compute, found)


def _is_one_of(account: str, accounts: Iterable[str]) -> bool:
    """Slurm keeps names of accounts in small letters."""
    return account.lower() in {name.lower() for name in accounts}


def _enforced(facts: ClusterFacts) -> set[str] | None:
    """What the cluster holds jobs to; `None`: it did not say."""
    found = facts.config.get("AccountingStorageEnforce")
    return None if found is None else {word.strip().lower() for word in found.split(",")}


def _walltime(where: str, compute: SlurmCompute, partition: Partition) -> Finding:
    most = partition.max_seconds
    limit = "no time limit" if most is None else f"a time limit of {slurm_time(most)}"
    if any(said.startswith("MaxTime=") for said in partition.unread):
        limit = "a time limit that cannot be read"
    if compute.walltime is None:
        default = partition.default_seconds
        shown = "its default" if default is None else slurm_time(default)
        return warning("walltime", f"{where}.walltime: it is not set; {partition.name} gives {shown}.")
    wanted = parse_duration(compute.walltime, where=f"{where}.walltime")
    if most is not None and wanted > most:
        return problem(
            "walltime",
            f"{where}.walltime: {slurm_time(wanted)} is more than {partition.name} allows; set "
            f"{slurm_time(most)} or less, and `resumable: true` lets a benchmark go on in further jobs.",
        )
    return ok("partition", f"{partition.name} is up, with {limit}")


def _account(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.associations:
        yield unknown("account", f"accounting does not say which accounts {facts.user} may use")
        return
    accounts = list(dict.fromkeys(row.account for row in facts.associations))
    if _is_one_of(compute.account, accounts):
        yield ok("account", f"{facts.user} may use {compute.account}")
        return
    text = f"{facts.user} may not use {compute.account}; there is {', '.join(accounts)}"
    enforced = _enforced(facts)
    if enforced is not None and "associations" in enforced:
        yield problem("account", f"compute.{config.cluster}.account: {text}.")
    else:
        yield unknown("account", f"accounting says that {text}, but nothing says that jobs are held to it")


def _limits(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    jobs = config.driver.benchmarks.values()
    needed = len(jobs) + sum(job.chain is not None for job in jobs)
    partition = next((pool.partition for pool in compute.node_pools.values()), None)
    rows = [
        row
        for row in facts.associations or ()
        if _is_one_of(compute.account, [row.account]) and row.partition in ("", partition)
    ]
    most = min((row.max_submitted for row in rows if row.max_submitted is not None), default=None)
    if most is None:
        return
    queued = sum(n for name, n in (facts.queued or {}).items() if _is_one_of(compute.account, [name]))
    text = (
        f"{counted(needed, 'job is', 'jobs are')} needed at once and "
        f"{counted(queued, 'is', 'are')} queued, of at most {most} for {compute.account}"
    )
    enforced = _enforced(facts)
    if enforced is not None and "limits" not in enforced:
        yield unknown("submit limit", f"{text}; nothing says that jobs are held to it")
    elif queued + needed > most:
        yield problem("submit limit", f"{text}; submit fewer benchmarks at a time (--only NAME).")
    else:
        yield ok("submit limit", text)


def _chain(config: SubmitConfig, compute: SlurmCompute, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether jobs can queue their successors and see how their predecessors ended, as far as can be seen."""
    if all(job.chain is None for job in config.driver.benchmarks.values()):
        return
    name, found = _used(compute, facts.partitions or [])
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
