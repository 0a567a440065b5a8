"""What a cluster's own words say about a job that is to be queued there: pure rules, each a few findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nemo_runs.counts import counted
from nemo_runs.durations import slurm_time
from nemo_runs.findings import Finding, ok, problem, unknown, warning
from nemo_slurm.facts import ClusterFacts
from nemo_slurm.records import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJob:
    """What is asked of the scheduler; `None` is its own default."""

    account: str | None
    partition: str | None
    """One, or several separated by commas."""
    nodes: int
    seconds: float | None
    """Walltime; infinite for `UNLIMITED`."""
    count: int = 1
    """Jobs that are in the queue at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNames:
    """What the configuration calls these values, for sentences that say what to change."""

    account: str
    partition: str
    nodes: str
    walltime: str
    longer: str
    """A clause on how work goes on that takes longer than a partition allows."""


def judge(wanted: WantedJob, keys: KeyNames, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the partition takes such a job of such an account for so long."""
    yield from _partition(wanted, keys, facts)
    yield from _account(wanted, keys, facts)


def judge_limits(wanted: WantedJob, facts: ClusterFacts, over: Callable[[str], Finding]) -> Iterator[Finding]:
    """Whether so many jobs may be queued; ``over`` makes the finding of those that may not."""
    rows = [
        row
        for row in facts.associations or ()
        if _is_one_of(wanted.account, [row.account]) and row.partition in ("", wanted.partition)
    ]
    most = min((row.max_submitted for row in rows if row.max_submitted is not None), default=None)
    if most is None:
        return
    queued = sum(n for name, n in (facts.queued or {}).items() if _is_one_of(wanted.account, [name]))
    text = (
        f"{counted(wanted.count, 'job is', 'jobs are')} needed at once and "
        f"{counted(queued, 'is', 'are')} queued, of at most {most} for {wanted.account}"
    )
    enforced = _enforced(facts)
    if enforced is not None and "limits" not in enforced:
        yield unknown("submit limit", f"{text}; nothing says that jobs are held to it")
    elif queued + wanted.count > most:
        yield over(text)
    else:
        yield ok("submit limit", text)


def used_partition(name: str | None, partitions: list[Partition]) -> Partition | None:
    """What the cluster says of the partition of a job: the named one, or else its default."""
    if name is None:
        return next((partition for partition in partitions if partition.default), None)
    return next((partition for partition in partitions if partition.name == name), None)


def _partition(wanted: WantedJob, keys: KeyNames, facts: ClusterFacts) -> Iterator[Finding]:
    if facts.partitions is None:
        yield unknown("partition", "the controller did not say which partitions there are")
        return
    name, found = wanted.partition, used_partition(wanted.partition, facts.partitions)
    names = [partition.name for partition in facts.partitions]
    there = ", ".join(names) or "none"
    if name is not None and (gone := [one for one in name.split(",") if one.strip() not in names]):
        missing = ", ".join(one.strip() or "''" for one in gone)
        yield problem("partition", f"{keys.partition}: there is no partition {missing}; there is {there}.")
        return
    if name is not None and "," in name:
        yield unknown("partition", f"{name}: the scheduler chooses among them, their limits are not compared")
        return
    if found is None:
        yield unknown(
            "partition",
            f"there is no default partition among {there}; unless the site chooses one, sbatch refuses "
            f"the job: name one in {keys.partition}",
        )
        return
    yield from _admits(wanted, keys, found, there)
    yield _walltime(wanted, keys, found)


def _admits(wanted: WantedJob, keys: KeyNames, found: Partition, there: str) -> Iterator[Finding]:
    if found.up is None:
        yield unknown("partition", f"the state of {found.name} cannot be read; sbatch will say more")
    elif not found.up:
        yield problem("partition", f"{found.name} is not up and takes no jobs; choose another of {there}.")
    if found.accounts is not None and not _is_one_of(wanted.account, found.accounts):
        text = f"{keys.account}: {found.name} is open to {', '.join(found.accounts)} only"
        if wanted.account is None:
            yield unknown("partition", f"{text}; name one unless it is your default")
        else:
            yield problem("partition", f"{text}.")
    if found.max_nodes is not None and wanted.nodes > found.max_nodes:
        most = f"{found.name} gives a job at most {found.max_nodes} nodes"
        yield problem("nodes", f"{keys.nodes}: {wanted.nodes} nodes are asked for, but {most}.")
    if found.unread:
        said = ", ".join(found.unread)
        yield unknown("limits", f"{found.name} has {said}, which cannot be read: it is not compared")


def _walltime(wanted: WantedJob, keys: KeyNames, partition: Partition) -> Finding:
    most = partition.max_seconds
    limit = "no time limit" if most is None else f"a time limit of {slurm_time(most)}"
    if any(said.startswith("MaxTime=") for said in partition.unread):
        limit = "a time limit that cannot be read"
    if wanted.seconds is None:
        default = partition.default_seconds
        shown = "its default" if default is None else slurm_time(default)
        return warning("walltime", f"{keys.walltime}: it is not set; {partition.name} gives {shown}.")
    if most is not None and wanted.seconds > most:
        asked = "UNLIMITED" if math.isinf(wanted.seconds) else slurm_time(int(wanted.seconds))
        return problem(
            "walltime",
            f"{keys.walltime}: {asked} is more than {partition.name} allows; set {slurm_time(most)} or less, "
            f"and {keys.longer}.",
        )
    return ok("partition", f"{partition.name} is up, with {limit}")


def _account(wanted: WantedJob, keys: KeyNames, facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.associations:
        yield unknown("account", f"accounting does not say which accounts {facts.user} may use")
        return
    accounts = list(dict.fromkeys(row.account for row in facts.associations))
    if wanted.account is None:
        yield ok("account", f"{facts.user} has {', '.join(accounts)}, and jobs get the default of them")
        return
    if _is_one_of(wanted.account, accounts):
        yield ok("account", f"{facts.user} may use {wanted.account}")
        return
    text = f"{facts.user} may not use {wanted.account}; there is {', '.join(accounts)}"
    enforced = _enforced(facts)
    if enforced is not None and "associations" in enforced:
        yield problem("account", f"{keys.account}: {text}.")
    else:
        yield unknown("account", f"accounting says that {text}, but nothing says that jobs are held to it")


def _is_one_of(account: str | None, accounts: Iterable[str]) -> bool:
    """Slurm keeps names of accounts in small letters."""
    return account is not None and account.lower() in {name.lower() for name in accounts}


def _enforced(facts: ClusterFacts) -> set[str] | None:
    """What the cluster holds jobs to; `None`: it did not say."""
    found = facts.config.get("AccountingStorageEnforce")
    return None if found is None else {word.strip().lower() for word in found.split(",")}
