"""Jobs that somebody's records have forgotten: what the scheduler still knows of them, by their token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemo_slurm.calls import Calls
from nemo_slurm.errors import CommandMissingError, NotConnectedError, NotReachableError, UnusableValueError
from nemo_slurm.hosts import Completed
from nemo_slurm.records import BREAK

DAYS: Final = 365
"""How far back accounting is asked."""

_WIDTHS: Final = {"JobID": 20, "Comment": 300, "WorkDir": 4096}
_ACCOUNTING: Final = "JobIDRaw,Comment,WorkDir"


@dataclass(frozen=True, slots=True)
class Trace:
    """One job: its number, its token, and the folder that it was submitted in."""

    id: str
    token: str
    folder: str


@dataclass(frozen=True, slots=True)
class Traces:
    """What was found; a witness that did not answer is named, and then there may be more."""

    jobs: list[Trace]
    controller: str | None
    """Why the controller said nothing; `None` when it answered."""
    accounting: str | None


def trace(calls: Calls, user: str) -> Traces:
    """A user's jobs of the last `DAYS` days that the controller or accounting knows, each named once.

    Raises `NotReachableError` when neither answers, or the host does not.
    """
    if not user or user.startswith("-") or "," in user:
        raise UnusableValueError(f"{user!r} is not the name of a user")
    layout = ",".join(f"{name}:{width}{BREAK}" for name, width in _WIDTHS.items())
    squeue = ["squeue", "-h", "-a", "-t", "all", "-O", layout, "--me"]
    sacct = ["sacct", "-n", "-X", "-P", f"--delimiter={BREAK}", f"--format={_ACCOUNTING}"]
    waiting, controller = _asked(calls, squeue)
    ended, accounting = _asked(calls, [*sacct, f"--user={user}", f"--starttime=now-{DAYS}days"])
    if controller and accounting:
        raise NotReachableError(f"neither the controller nor accounting answers: {controller}; {accounting}")
    return Traces(list(dict.fromkeys([*waiting, *ended])), controller, accounting)


def _asked(calls: Calls, argv: Sequence[str]) -> tuple[list[Trace], str | None]:
    try:
        answer = calls.call([argv])[0]
    except NotConnectedError:
        raise
    except (NotReachableError, CommandMissingError) as error:
        return [], str(error)
    if answer.status != 0 or "accounting storage is disabled" in answer.stderr:
        return [], _words(answer) or f"{argv[0]} ended with status {answer.status}"
    rows = [[field.strip() for field in line.split(BREAK)] for line in answer.stdout.splitlines()]
    return [Trace(*row[:3]) for row in rows if len(row) >= 3 and row[0].isdigit()], None


def _words(answer: Completed) -> str:
    return " ".join(f"{answer.stderr} {answer.stdout}".split())
