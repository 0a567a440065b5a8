"""Slurm's commands as values: argument lists to call, and what their output says. Nothing is called here.

Numbers and times are asked for raw: delimiters instead of columns, seconds since the epoch instead of dates
(``SLURM_TIME_FORMAT=%s``), so that nothing is cut short and no time zone matters. Only rows of allocations
are read, never of steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nemo_slurm.errors import SchedulerRefusedError, SubmitLimitError, UnusableValueError
from nemo_slurm.records import ACCOUNTING_FIELDS, BREAK, QUEUE_FIELDS, SlurmJob

ENVIRONMENT = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
"""What every command is given; `queue` and `accounting` read nothing else."""

MOST_IDS = 1000
"""Ids in one call; more are asked for in several (an argument list has an end, and slurmdbd a timeout)."""

_ID = re.compile(r"(?P<id>[1-9][0-9]*)(?:;(?P<cluster>[A-Za-z0-9_.-]+))?")
_SENTENCE = re.compile(
    r"(?:sbatch: )?Submitted batch job (?P<id>[1-9][0-9]*)(?: on cluster (?P<cluster>[A-Za-z0-9_.-]+))?"
)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


# ---------------------------------------------------------------- sbatch


def sbatch(
    script: str,
    arguments: Sequence[str] = (),
    *,
    token: str,
    dependency: str | None = None,
    options: Sequence[str] = (),
    test_only: bool = False,
) -> list[str]:
    """Submit a script. ``token`` becomes the comment, by which the job is found after a lost reply."""
    first = ["--test-only"] if test_only else ["--parsable"]
    words = [f"--comment={token}", *([f"--dependency={dependency}"] if dependency else []), *options]
    return ["sbatch", *first, *words, "--", script, *arguments]


@dataclass(frozen=True, slots=True)
class Reply:
    """What ``sbatch --parsable`` printed, read."""

    job: SlurmJob | None
    """The only job that it can mean; `None`: none, or one of several."""
    plain: bool = False
    """Nothing but the id was printed, so no wrapper or banner can have put another number there."""


def read_reply(text: str) -> Reply:
    """Read what ``sbatch --parsable`` printed, whatever a site's wrapper or banner says around it.

    Only a line that is an id, and sbatch's own sentence, count; two that differ mean nothing. A caller that
    gets no job, or a reply that is not plain, looks for the token: a number alone proves nothing.
    ``gym_read_reply`` of ``shell/slurm_queue.sh`` reads by the same rule.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found: dict[str, str | None] = {}
    for line in lines:
        match = _ID.fullmatch(line) or _SENTENCE.fullmatch(line)
        if match:
            found[match["id"]] = found.get(match["id"]) or match["cluster"]
    if len(found) != 1:
        return Reply(None)
    number, cluster = found.popitem()
    return Reply(SlurmJob(number, cluster), plain=len(lines) == 1)


_UNCERTAIN = re.compile(
    r"timed out|zero bytes|unable to contact|unexpected message|connection (?:refused|reset|timed)"
    r"|transport endpoint|communications? (?:connection|failure|error)|cannot (?:contact|connect)"
    r"|broken pipe|temporarily unavailable|send/recv|message (?:send|receive) failure"
    r"|slurmctld.*(?:not respond|unavailable)",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"accounting/qos policy|MaxSubmit|SubmitJobs?(?:PerUser)?Limit|MaxJobCount|too many jobs"
    r"|maximum number of jobs|job (?:submit|count) limit",
    re.IGNORECASE,
)


_NEVER = re.compile(r"\b(?:QOS|Assoc)\w*(?:PerJob|MaxWall)\w*", re.IGNORECASE)
"""Limits that the same job breaks however long it waits, though the rest of the sentence is the same."""


def is_uncertain(text: str) -> bool:
    """Whether the text of a failed call leaves open what became of the request."""
    return not text.strip() or bool(_UNCERTAIN.search(text))


def is_about_dependency(text: str) -> bool:
    """Whether a submission was refused for the job that it was to wait for."""
    return "dependency problem" in text.lower()


def refusal(status: int, text: str, where: str) -> SchedulerRefusedError:
    """The error for a call that the scheduler turned down."""
    kind = SubmitLimitError if _LIMIT.search(text) and not _NEVER.search(text) else SchedulerRefusedError
    return kind(["sbatch"], status, text, where=where)


# ---------------------------------------------------------------- squeue

_FORMAT = ",".join(f"{name}:{width}{BREAK}" for name, width in QUEUE_FIELDS.items())


def queue(jobs: Sequence[SlurmJob] = ()) -> list[list[str]]:
    """Ask the controller about jobs, without any about all of the user's; ended ones that it knows too."""
    head = ["squeue", "-h", "-a", "-t", "all", "-O", _FORMAT]
    if not jobs:
        return [[*head, "--me"]]
    return [[*head, *_clusters(cluster), "-j", ",".join(ids)] for cluster, ids in _grouped(jobs)]


def knows_none(text: str) -> bool:
    """Whether the controller said that it does not know the job, which is an answer."""
    return "Invalid job id specified" in text


# ---------------------------------------------------------------- sacct


def accounting(jobs: Sequence[SlurmJob]) -> list[list[str]]:
    """Ask accounting for every run of jobs: allocations alone, repeated records of one id too."""
    head = ["sacct", "-n", "-X", "-D", "-P", f"--delimiter={BREAK}", f"--format={ACCOUNTING_FIELDS}"]
    return [[*head, *_clusters(cluster), "-j", ",".join(ids)] for cluster, ids in _grouped(jobs)]


# ---------------------------------------------------------------- scancel, scontrol, sacctmgr


def cancel(jobs: Sequence[SlurmJob]) -> list[list[str]]:
    """End jobs: those that wait, then all others, whatever they have become meanwhile."""
    calls = []
    for state in (["--state=PENDING"], []):
        calls += [["scancel", *state, *_clusters(cluster), *ids] for cluster, ids in _grouped(jobs)]
    return calls


def signal_batch(job: SlurmJob, name: str) -> list[str]:
    """Send a signal to a job's batch script alone; its job steps and their processes get none."""
    return ["scancel", f"--signal={name}", "--batch", *_clusters(job.cluster), job.id]


def show_job(job: SlurmJob) -> list[str]:
    """Ask the controller for all that it knows of one job."""
    return ["scontrol", *_clusters(job.cluster), "-o", "show", "job", job.id]


def show_partitions() -> list[str]:
    """Ask for all partitions, hidden ones too: a user may submit to one that is not listed."""
    return ["scontrol", "-a", "-o", "show", "partition"]


def associations(user: str) -> list[str]:
    """Ask which accounts a user may use."""
    if not _NAME.fullmatch(user):
        raise UnusableValueError(f"{user!r} is not the name of a user")
    fields = "format=Account,Partition,MaxJobs,MaxSubmitJobs"
    return ["sacctmgr", "-n", "-P", "show", "assoc", "where", f"user={user}", fields]


# ---------------------------------------------------------------- parts


def _grouped(jobs: Sequence[SlurmJob]) -> list[tuple[str | None, list[str]]]:
    """Ids by cluster, in pieces that a call can take; every id is checked."""
    groups: dict[str | None, list[str]] = {}
    for job in dict.fromkeys(SlurmJob.parse(str(job)) for job in jobs):
        groups.setdefault(job.cluster, []).append(job.id)
    return [
        (cluster, ids[first : first + MOST_IDS])
        for cluster, ids in groups.items()
        for first in range(0, len(ids), MOST_IDS)
    ]


def _clusters(name: str | None) -> list[str]:
    return [f"--clusters={name}"] if name else []
