"""Write docs/reference/job-statuses.md from the state machine and the rules; `page` is compared by a test."""

from __future__ import annotations

from pathlib import Path

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs import action_rules, deadlines, states
from nemo_helix_server.jobs.action_rules import ActionAllowed, ActionFacts, JobAction, NoChange

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "job-statuses.md"

MEANINGS = {
    Status.CREATION_PENDING: "The job is there; its directories are being made.",
    Status.CREATED: "Nobody has considered the step yet.",
    Status.QUEUED: "The step waits for devices, slots or space; its `message` says for what.",
    Status.PENDING: "The step's process is being started.",
    Status.ACTIVE: "The step runs, or the job is between two steps.",
    Status.PAUSING: "The workload was asked to save a checkpoint and exit.",
    Status.PAUSED: "The workload has exited and its checkpoint is verified; storage is kept.",
    Status.RESUMING: "The step is to start again from its checkpoint.",
    Status.CANCELLING: "The workload is being stopped.",
    Status.CANCELLED: "Stopped for good; `reason` says whether by a user or by the pause window.",
    Status.COMPLETED: "Every step completed.",
    Status.ERROR: "The step failed; `reason` and `error_details` say why.",
    Status.DELETION_PENDING: "The job is being removed.",
}
HEAD = """# Statuses of jobs

A job shows the status of its current attempt, an attempt that of its newest step. One vocabulary serves
all of them, and tasks too. This page is written from the code (`make reference`).

## What each status means

"""
ACTIONS = """
## When each action is allowed

`200` means that the action is accepted, with the status that follows; *no change* that it is so already
or on its way. `409` carries one sentence that names the step or status and the command that would work.

* A pause is `200` only where the current step can be paused: its `lifecycle.pause_deadline_seconds` is more
  than 0.
* *gone*: the job's storage was deleted, at the end of its window or of the job. A rerun that names a pinned
  checkpoint is possible all the same.
* Resume and rerun are `409` where this machine cannot run the step as things are: it asks for more devices
  or memory than there are, its execution profile or the interpreter of its command is not there, or a secret
  is missing. The job stays as it is, and so does its window.

"""
TABLE = """
## From status to status

Everything that can happen to a step, with who brings it about. What is not in the table does not happen:
a write whose step has moved on is refused. `delete_requested` and `rerun_requested` concern the job; its
steps keep their statuses.

"""
DERIVED = """
## Attempt and job

An attempt has the status of its newest step, except that it is `active` between two steps and while a
later step is `created` or `pending`, and `completed` only when all its steps are. A job has the status of
its current attempt until it is removed.

## Ways out

A status that is not final has a way out. A deadline counts from when the status was entered.

"""
REASONS = """
## Reasons

`reason` says why, where the status alone does not.

"""


def page() -> str:
    """The whole page."""
    return "".join(
        (
            HEAD,
            _table(("Status", "Ends a step", "Meaning"), _statuses()),
            ACTIONS,
            _table(("Job status", *(action.value for action in _ASKED)), _actions()),
            TABLE,
            _table(("From", "Event", "To", "By", "Meaning"), _edges()),
            DERIVED,
            _table(("Status", "Deadline", "Then", "Meaning"), _deadlines()),
            REASONS,
            _table(("Reason", "Status that it explains"), _reasons()),
        )
    )


_ASKED = (
    JobAction.PAUSE,
    JobAction.RESUME,
    JobAction.RERUN,
    JobAction.CANCEL,
    JobAction.CONTROL,
    JobAction.DELETE,
)


def _statuses() -> list[tuple[str, ...]]:
    return [(f"`{status}`", "yes" if status.is_terminal else "no", MEANINGS[status]) for status in Status]


def _actions() -> list[tuple[str, ...]]:
    return [(f"`{status}`", *(_answer(action, status) for action in _ASKED)) for status in Status]


_MAY_BE_GONE = frozenset(s for s in Status if s.is_settled or s is Status.CANCELLING)
"""Statuses in which a job's storage may have been deleted."""


def _answer(action: JobAction, status: Status) -> str:
    kept = _plain_answer(action, status, reclaimed=False)
    gone = _plain_answer(action, status, reclaimed=True) if status in _MAY_BE_GONE else kept
    return kept if gone == kept else f"{kept}; {gone} when gone"


def _plain_answer(action: JobAction, status: Status, *, reclaimed: bool) -> str:
    facts = ActionFacts(
        job="NAME",
        workspace="default",
        status=status,
        step="training",
        step_status=status,
        pausable=True,
        seen_running=True,
        reclaimed=reclaimed,
    )
    answer = action_rules.allowed(action, facts)
    if isinstance(answer, NoChange):
        return "200, no change"
    if isinstance(answer, ActionAllowed):
        to = states.after(status, answer.event) if answer.event else None
        return f"200 → `{to}`" if to else "200"
    return "409"


def _edges() -> list[tuple[str, ...]]:
    return [
        (f"`{edge.origin}`", f"`{edge.event}`", f"`{edge.to}`", edge.actor.value, edge.meaning)
        for edge in sorted(states.TABLE, key=lambda edge: list(Status).index(edge.origin))
    ]


def _deadlines() -> list[tuple[str, ...]]:
    return [
        (
            f"`{deadline.status}`",
            f"`{deadline.setting}`" if deadline.setting else "none",
            f"`{deadline.event}`",
            deadline.meaning,
        )
        for deadline in deadlines.DEADLINES
    ]


def _reasons() -> list[tuple[str, ...]]:
    return [(f"`{reason}`", f"`{status}`") for reason, status in states.REASONS.items()]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
