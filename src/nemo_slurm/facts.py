"""What a cluster reports about itself, asked in one round trip, for the checks of a config."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nemo_runs import findings
from nemo_runs.findings import Finding
from nemo_slurm import commands, records
from nemo_slurm.calls import HostCalls
from nemo_slurm.cluster import Cluster
from nemo_slurm.errors import CommandMissingError, NotReachableError, SchedulerRefusedError, SlurmError
from nemo_slurm.hosts import Completed, Host
from nemo_slurm.records import Association, Partition
from nemo_slurm.remote_script import missing_paths, remote_script

_OWN_LINES = ("sbatch: ", "allocation failure: ")
"""How lines of ``sbatch`` begin; other ones are a banner or a job_submit plug-in's."""
_CONFIG = re.compile(r"^(\w+)\s*=\s*(.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """One look at a cluster. What could not be asked is `None`."""

    user: str
    partitions: list[Partition] | None
    alloc_nodes: dict[str, str] = field(default_factory=dict)
    """Partition -> the nodes from which jobs may be submitted to it; ``ALL`` or names."""
    associations: list[Association] | None
    """The user's accounts; `None` where accounting does not answer, empty where it keeps none."""
    config: dict[str, str] = field(default_factory=dict)
    """``scontrol show config``."""
    queued: Mapping[str, int] | None
    """Account -> how many jobs of the user wait or run there."""
    accounting: str | None
    """Why ``sacct`` cannot be used; `None` when it can."""
    containers: bool | None = None
    """Whether ``srun`` there takes Pyxis' options; `None`: it did not say."""


def gather(host: Host) -> ClusterFacts:
    """Ask the cluster. Raises `SlurmError` when the host, or one of the needed commands, cannot be had.

    Raises `NotReachableError` when the controller does not answer the first question; it is asked no other.
    """
    user = host.run("id -un").stdout.strip() or "root"
    calls = HostCalls(host)
    (first,) = calls.call([commands.show_partitions()])
    said = " ".join((first.stderr or first.stdout).split())
    if first.status != 0 and commands.is_uncertain(said):
        raise NotReachableError(f"the scheduler on {host.label} did not answer: {said or 'it said nothing'}")
    partitions = first.stdout if first.status == 0 else None
    answers = calls.call(
        [
            ["scontrol", "show", "config"],
            ["squeue", "-h", "-r", "--me", "-o", "job|%a"],
            ["sbatch", "--version"],
            ["scancel", "--version"],
        ]
    )
    accounting = _accounting(calls)
    return ClusterFacts(
        user=user,
        partitions=None if partitions is None else records.read_partitions(partitions),
        alloc_nodes=_alloc_nodes(partitions or ""),
        associations=_associations(calls, user) if accounting is None else None,
        config=dict(_CONFIG.findall(answers[0].stdout)),
        queued=_queued(answers[1].stdout) if answers[1].status == 0 else None,
        accounting=accounting,
        containers=_containers(calls),
    )


def _queued(text: str) -> dict[str, int]:
    rows = (line.partition("|") for line in text.splitlines())
    return dict(Counter(account.strip() for mark, _, account in rows if mark == "job"))


def _alloc_nodes(text: str) -> dict[str, str]:
    rows = [records.read_show(line) for line in text.splitlines() if line.startswith("PartitionName=")]
    found = {row["PartitionName"]: row.get("AllocNodes", "ALL") for row in rows}
    return {name: "ALL" if nodes in ("", "(null)", "N/A") else nodes for name, nodes in found.items()}


def _associations(calls: HostCalls, user: str) -> list[Association] | None:
    try:
        answer = _one(calls, commands.associations(user))
    except (CommandMissingError, NotReachableError):
        return None
    return records.read_associations(answer.stdout) if answer.status == 0 else None


def _accounting(calls: HostCalls) -> str | None:
    try:
        answer = _one(calls, ["sacct", "-n", "-X", "-S", "now-1minutes"])
    except (CommandMissingError, NotReachableError) as error:
        return str(error)
    text = " ".join((answer.stderr or answer.stdout).split())
    if answer.status != 0 or "accounting storage is disabled" in text.lower():
        return text or f"sacct ended with status {answer.status}"
    return None


def _containers(calls: HostCalls) -> bool | None:
    try:
        answer = _one(calls, ["srun", "--help"])
    except CommandMissingError:
        return None
    return "--container-image" in answer.stdout if answer.status == 0 else None


def _one(calls: HostCalls, argv: Sequence[str]) -> Completed:
    return calls.call([argv])[0]


def space(host: Host, path: str) -> tuple[str, bool, int | None]:
    """The nearest folder that is there, whether it may be written to, and its free space in KiB."""
    script = remote_script(__package__, "space", folder=path, paths=())
    lines = host.run(script).stdout.splitlines()
    free = int(lines[2]) if len(lines) > 2 and lines[2].isdigit() else None
    return lines[0] if lines else path, lines[1:2] == ["yes"], free


def missing(host: Host, paths: Sequence[str]) -> list[str]:
    """Those of some paths that are not there."""
    return [paths[number] for number in missing_paths(host, paths)]


def _own_lines(said: str) -> list[str]:
    """What ``sbatch`` said itself, without what a site prints around it; all of it where that is not seen."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(_OWN_LINES)]
    return own or lines


def accepts(host: Host, script: str, *, about: str, change: str) -> Finding:
    """What ``sbatch --test-only`` says to a script; ``change`` names what to change when it refuses."""
    path = f"/tmp/gym-check-{secrets.token_hex(8)}.sh"  # noqa: S108 - a name that nobody can foresee
    try:
        host.write(path, script.encode(), mode=0o600)
        said = (line.removeprefix("sbatch: ") for line in _own_lines(Cluster(host).test(path)))
        return findings.ok(about, "; ".join(said))
    except SchedulerRefusedError as error:
        return findings.problem(about, f"{' '.join(_own_lines(error.text))}; change {change}.")
    except SlurmError as error:
        return findings.unknown(about, str(error))
    finally:
        with contextlib.suppress(SlurmError):
            host.run(f"rm -f -- {path}")
