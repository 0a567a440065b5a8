"""What Slurm's commands print, as values. Everything else in an output is passed over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nemo_runs.durations import parse_duration
from nemo_runs.errors import DurationError
from nemo_slurm.errors import UnusableValueError
from nemo_slurm.states import SlurmState, read_state

BREAK = "\x1f"
"""Separates fields; no name or comment holds it."""

QUEUE_FIELDS = {
    "JobID": 20,
    "State": 30,
    "exit_code": 12,
    "RestartCnt": 8,
    "Requeue": 4,
    "Reason": 200,
    "SubmitTime": 24,
    "StartTime": 24,
    "EndTime": 24,
    "Dependency": 200,
    "Partition": 80,
    "Name": 200,
    "Comment": 600,
    "UserID": 12,
    "EligibleTime": 24,
}
"""What is asked of ``squeue -O``, with the widths to which it cuts each field."""

ACCOUNTING_FIELDS = (
    "JobIDRaw,State,ExitCode,ElapsedRaw,Submit,Start,End,NNodes,JobName,Comment,UID,JobID,Eligible"
)
"""What is asked of ``sacct --format``."""

_LAST_SECOND = 253_402_300_799
"""Of the year 9999."""
_UNNAMED = "allocation"
"""What accounting writes for a name that it does not know (22.05, measured: of jobs that end at once)."""
_ID = re.compile(r"(?P<id>[1-9][0-9]*)(?:;(?P<cluster>[A-Za-z0-9_.-]+))?")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Names a job: its number, and what distinguishes it from another one that had or has the same number.

    All but the number may be unknown; see `nemo_slurm.identity`.
    """

    id: str
    cluster: str | None = None
    """Of a federation or of ``--clusters``; every later call is sent there."""
    submitted_at: float | None = None
    """UTC seconds before which it was not submitted."""
    token: str | None = None
    """What its comment holds."""
    user: int | None = None
    """Number of the user who owns it."""
    name: str | None = None
    name_proves: bool = False
    """Whether its name is that of no other job: it then proves the job where a comment is a site's own."""
    began_at: float | None = None
    """UTC seconds at which its first run had begun, by its own word."""

    @classmethod
    def parse(cls, text: str) -> SlurmJob:
        """Read ``1234`` or ``1234;cluster``. Raises `UnusableValueError`."""
        match = _ID.fullmatch(text)
        if not match:
            raise UnusableValueError(f"{text!r} is not the number of a Slurm job")
        return cls(match["id"], match["cluster"])

    def __str__(self) -> str:
        return f"{self.id};{self.cluster}" if self.cluster else self.id


@dataclass(frozen=True, slots=True)
class QueueRow:
    """What the controller knows of a job. Times are UTC seconds, `None` while not known."""

    id: str
    state: SlurmState
    exit_status: int
    signal: int
    restarts: int
    requeues: bool
    """Whether Slurm may put it back into the queue; a state that looks final may then pass."""
    reason: str
    submitted_at: float | None
    started_at: float | None
    ended_at: float | None
    """Of a running job: when its time is over."""
    dependency: str
    partition: str
    name: str
    comment: str
    user: int | None = None
    """Number of its owner."""
    eligible_at: float | None = None
    """Since when it could have run: nothing that it depends on kept it any more."""


@dataclass(frozen=True, slots=True)
class AccountingRun:
    """What accounting has about one run of a job; a job that was requeued has several."""

    id: str
    state: SlurmState
    exit_status: int
    signal: int
    elapsed: int
    """Seconds of allocation, suspended time left out: Slurm's ElapsedRaw, never a difference of dates."""
    submitted_at: float | None
    started_at: float | None
    ended_at: float | None
    nodes: int
    name: str
    """Empty where accounting does not know it."""
    comment: str
    user: int | None = None
    """Number of its owner."""
    component_of: str | None = None
    """The number of the heterogeneous job of which it is a further component."""
    eligible_at: float | None = None
    """Since when it could have run; not every version writes it down."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition, its limits `None` where there are none or where they cannot be read."""

    name: str
    up: bool | None
    """`None`: a state that nobody has heard of."""
    default: bool
    max_seconds: int | None
    default_seconds: int | None
    max_nodes: int | None
    nodes: int
    accounts: tuple[str, ...] | None
    """Accounts that may use it; `None` for all."""
    unread: tuple[str, ...] = ()
    """``key=value`` of limits that are none that can be read, so that nothing is known of them."""


@dataclass(frozen=True, slots=True)
class Association:
    """One right of a user to use an account."""

    account: str
    partition: str
    max_jobs: int | None
    max_submitted: int | None


def read_queue(text: str) -> list[QueueRow]:
    """Rows of `queue`; anything else that was printed is passed over."""
    found = []
    for line in text.splitlines():
        fields = [field.rstrip() for field in line.split(BREAK)]
        state = read_state(fields[1]) if len(fields) == len(QUEUE_FIELDS) + 1 else None
        if state is None or _number(fields[0]) is None:
            continue
        status = _number(fields[2]) or 0
        found.append(
            QueueRow(
                id=fields[0].strip(),
                state=state,
                exit_status=status >> 8 & 0xFF,
                signal=status & 0x7F,
                restarts=_number(fields[3]) or 0,
                requeues=fields[4] == "1",
                reason=fields[5],
                submitted_at=_seconds(fields[6]),
                started_at=_seconds(fields[7]),
                ended_at=_seconds(fields[8]),
                dependency=_text(fields[9]),
                partition=_text(fields[10]),
                name=_whole(fields[11], "Name"),
                comment=_whole(fields[12], "Comment"),
                user=_number(fields[13]),
                eligible_at=_seconds(fields[14]),
            )
        )
    return found


def read_accounting(text: str) -> list[AccountingRun]:
    """Rows of `accounting`, as they come; rows of steps and other text are passed over."""
    found = []
    for line in text.splitlines():
        fields = line.split(BREAK)
        if len(fields) != len(ACCOUNTING_FIELDS.split(",")) or _number(fields[0]) is None:
            continue
        state = read_state(fields[1])
        if state is None:
            continue
        status, _, signal = fields[2].partition(":")
        found.append(
            AccountingRun(
                id=fields[0],
                state=state,
                exit_status=_number(status) or 0,
                signal=_number(signal) or 0,
                elapsed=_number(fields[3]) or 0,
                submitted_at=_seconds(fields[4]),
                started_at=_seconds(fields[5]),
                ended_at=_seconds(fields[6]),
                nodes=_number(fields[7]) or 0,
                name="" if fields[8] == _UNNAMED else fields[8],
                comment=fields[9],
                user=_number(fields[10]),
                component_of=_leader(fields[11]),
                eligible_at=_seconds(fields[12]),
            )
        )
    return found


_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z/:]*)=")


def read_show(line: str) -> dict[str, str]:
    """One line of ``scontrol -o show``: key to value, values with blanks in them included."""
    keys = list(_KEY.finditer(line))
    ends = [match.start() for match in keys[1:]] + [len(line)]
    found: dict[str, str] = {}
    for match, end in zip(keys, ends, strict=True):
        found.setdefault(match[1], line[match.end() : end].strip())
    return found


def read_partitions(text: str) -> list[Partition]:
    """Rows of `show_partitions`."""
    return [_partition(read_show(line)) for line in text.splitlines() if line.startswith("PartitionName=")]


def _partition(row: Mapping[str, str]) -> Partition:
    limits = {
        "MaxTime": _limit(row.get("MaxTime", "")),
        "DefaultTime": _limit(row.get("DefaultTime", "")),
        "MaxNodes": _count(row.get("MaxNodes", "")),
    }
    return Partition(
        name=row["PartitionName"],
        up=_UP.get(row.get("State", "").upper()),
        default=row.get("Default") == "YES",
        max_seconds=_known(limits["MaxTime"]),
        default_seconds=_known(limits["DefaultTime"]),
        max_nodes=_known(limits["MaxNodes"]),
        nodes=_number(row.get("TotalNodes", "")) or 0,
        accounts=_accounts(row.get("AllowAccounts", "ALL")),
        unread=tuple(f"{key}={row[key]}" for key, limit in limits.items() if limit is _ODD),
    )


def read_associations(text: str) -> list[Association]:
    """Rows of `associations`."""
    rows = (line.split("|") for line in text.splitlines() if line.count("|") == 3)
    return [Association(row[0], row[1], _number(row[2]), _number(row[3])) for row in rows]


def _leader(text: str) -> str | None:
    """The leader's number in ``123+1``; `None` for the leader itself and for any other job."""
    number, _, offset = text.partition("+")
    return number if number.isdigit() and offset.isdigit() and int(offset) else None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]+", text.strip()) else None


def _seconds(text: str) -> float | None:
    """Seconds since the epoch; 0, ``Unknown``, ``N/A`` and ``None`` are times that are not known.

    So is a number beyond the year 9999, which a scheduler may print of a time without end.
    """
    found = _number(text) or 0
    return float(found) if 0 < found <= _LAST_SECOND else None


def _text(field: str) -> str:
    return "" if field == "(null)" else field


def _whole(field: str, name: str) -> str:
    """A text by which a job is known; empty, as one that is not known, when it may have been cut."""
    return "" if len(field.encode("utf-8", "surrogateescape")) >= QUEUE_FIELDS[name] else _text(field)


class _Odd:
    """A limit that cannot be read."""


_ODD = _Odd()
_NO_LIMIT = frozenset({"UNLIMITED", "INFINITE", "NONE", "NOT_SET", "N/A", "(NULL)", ""})
_UP = {"UP": True, "DOWN": False, "DRAIN": False, "INACTIVE": False}


def _limit(text: str) -> int | _Odd | None:
    """Seconds. What the scheduler prints is not the user's: what cannot be read raises nothing."""
    if text.upper() in _NO_LIMIT:
        return None
    try:
        return parse_duration(text, where="a limit of the scheduler")
    except DurationError:
        return _ODD


def _count(text: str) -> int | _Odd | None:
    if text.upper() in _NO_LIMIT:
        return None
    number = _number(text)
    return _ODD if number is None else number


def _known(limit: int | _Odd | None) -> int | None:
    return None if isinstance(limit, _Odd) else limit


def _accounts(text: str) -> tuple[str, ...] | None:
    return None if text.upper() in {"ALL", "(NULL)", "N/A", ""} else tuple(text.split(","))
