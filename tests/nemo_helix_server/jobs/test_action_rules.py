"""The source page's lost table, row by row, and the sentences for what is not allowed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as S
from nemo_helix_server.jobs import action_rules
from nemo_helix_server.jobs.action_rules import ActionAllowed, ActionFacts, ActionRefused, JobAction, NoChange
from nemo_helix_server.jobs.states import StatusEvent

YES, SAME, NO = "yes", "no change", "409"
ACTIONS = (
    JobAction.PAUSE,
    JobAction.RESUME,
    JobAction.RERUN,
    JobAction.CANCEL,
    JobAction.CONTROL,
    JobAction.DELETE,
)
MATRIX = {
    #                     pause  resume rerun  cancel control delete
    S.CREATION_PENDING: (NO, NO, NO, YES, YES, YES),
    S.CREATED: (YES, NO, NO, YES, YES, NO),
    S.QUEUED: (YES, NO, NO, YES, YES, NO),
    S.PENDING: (YES, NO, NO, YES, YES, NO),
    S.ACTIVE: (YES, SAME, NO, YES, YES, NO),
    S.PAUSING: (SAME, YES, NO, YES, YES, NO),
    S.PAUSED: (SAME, YES, NO, YES, YES, NO),
    S.RESUMING: (NO, SAME, NO, YES, YES, NO),
    S.CANCELLING: (NO, NO, NO, SAME, YES, NO),
    S.CANCELLED: (NO, NO, NO, SAME, YES, YES),
    S.COMPLETED: (NO, NO, NO, SAME, YES, YES),
    S.ERROR: (NO, NO, YES, SAME, YES, YES),
    S.DELETION_PENDING: (NO, NO, NO, NO, NO, SAME),
}


def facts(status: S, **more: Any) -> ActionFacts:
    values: dict[str, Any] = {
        "job": "unsloth-1",
        "workspace": "default",
        "status": status,
        "step": "training",
        "step_status": status,
        "pausable": True,
    }
    return ActionFacts(**{**values, **more})


def sentence(action: JobAction, status: S, **more: Any) -> str:
    answer = action_rules.allowed(action, facts(status, **more))
    assert isinstance(answer, ActionRefused)
    return answer.sentence


@pytest.mark.parametrize(("status", "action"), list(itertools.product(S, ACTIONS)))
def test_every_pair_of_status_and_action(status: S, action: JobAction) -> None:
    answer = action_rules.allowed(action, facts(status))
    kind = {ActionAllowed: YES, NoChange: SAME, ActionRefused: NO}[type(answer)]
    assert kind == MATRIX[status][ACTIONS.index(action)]
    if isinstance(answer, ActionRefused):
        assert "unsloth-1" in answer.sentence
        assert "{" not in answer.sentence


@pytest.mark.parametrize(
    ("action", "status", "more", "expected"),
    [
        (
            JobAction.PAUSE,
            S.ACTIVE,
            {"pausable": False, "step": "model-and-dataset-download"},
            (
                "step model-and-dataset-download of job unsloth-1 cannot be paused; pause the job when a "
                "training step is running, or stop it for good with `nemo jobs cancel unsloth-1 "
                "--workspace default`"
            ),
        ),
        (
            JobAction.PAUSE,
            S.ERROR,
            {},
            (
                "job unsloth-1 ended in error, so there is nothing to pause; use `nemo jobs rerun unsloth-1 "
                "--workspace default`"
            ),
        ),
        (
            JobAction.RESUME,
            S.ERROR,
            {"workspace": "research"},
            (
                "job unsloth-1 ended in error and is not paused; use `nemo jobs rerun unsloth-1 "
                "--workspace research`"
            ),
        ),
        (
            JobAction.RESUME,
            S.ERROR,
            {"reclaimed": True},
            (
                "job unsloth-1 ended in error and is not paused; its storage is deleted, so create a new "
                "job instead"
            ),
        ),
        (
            JobAction.RESUME,
            S.CANCELLED,
            {"reason": "pause_window_ended"},
            (
                "job unsloth-1 was cancelled when its pause window ended and cannot be resumed; create a "
                "new job instead"
            ),
        ),
        (
            JobAction.RESUME,
            S.PAUSED,
            {"window_ended": True},
            (
                "the pause window of job unsloth-1 has ended and its storage is deleted; create a new job "
                "instead"
            ),
        ),
        (
            JobAction.RERUN,
            S.PAUSED,
            {},
            (
                "job unsloth-1 is paused, and only a job that ended in error can be run again; use `nemo "
                "jobs resume unsloth-1 --workspace default`"
            ),
        ),
        (
            JobAction.RERUN,
            S.ERROR,
            {"reclaimed": True},
            (
                "the storage of job unsloth-1 was deleted when its window ended, so it cannot be run "
                "again; create a new job instead"
            ),
        ),
        (
            JobAction.CONTROL,
            S.ERROR,
            {"reclaimed": True},
            (
                "the storage of job unsloth-1 is deleted already, so there is no window to change; create "
                "a new job instead"
            ),
        ),
        (
            JobAction.DELETE,
            S.PAUSED,
            {},
            (
                "job unsloth-1 is paused and cannot be deleted; use `nemo jobs cancel unsloth-1 "
                "--workspace default` first"
            ),
        ),
        (
            JobAction.UPDATE,
            S.ERROR,
            {},
            (
                "job unsloth-1 has an attempt that was made from its definition, which stays as it is; "
                "create a new job instead"
            ),
        ),
    ],
)
def test_a_refusal_names_what_stands_in_the_way_and_what_would_work(
    action: JobAction, status: S, more: dict[str, Any], expected: str
) -> None:
    assert sentence(action, status, **more) == expected


@pytest.mark.parametrize("status", [S.PAUSED, S.CANCELLING, S.CANCELLED, S.COMPLETED, S.ERROR])
def test_the_page_says_what_is_refused_once_the_storage_is_gone(status: S) -> None:
    page = (Path(__file__).parents[3] / "docs/reference/job-statuses.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{status}` | ") and "409" in line)
    for action, cell in zip(ACTIONS, row.strip("| ").split(" | ")[1:], strict=True):
        kept = action_rules.allowed(action, facts(status))
        gone = action_rules.allowed(action, facts(status, reclaimed=True))
        refused_then = isinstance(gone, ActionRefused) and not isinstance(kept, ActionRefused)
        assert refused_then == ("409 when gone" in cell), (action, cell)
    assert not isinstance(action_rules.allowed(JobAction.CONTROL, facts(status)), ActionRefused)
    assert isinstance(action_rules.allowed(JobAction.CONTROL, facts(status, reclaimed=True)), ActionRefused)


def test_a_pinned_checkpoint_outlives_the_storage() -> None:
    answer = action_rules.allowed(JobAction.RERUN, facts(S.ERROR, reclaimed=True, pinned=True))
    assert answer == ActionAllowed(StatusEvent.RERUN_REQUESTED)


def test_a_pause_is_withdrawn_to_where_the_workload_was() -> None:
    assert action_rules.allowed(JobAction.RESUME, facts(S.PAUSING, seen_running=True)) == ActionAllowed(
        StatusEvent.PAUSE_WITHDRAWN
    )
    assert action_rules.allowed(JobAction.RESUME, facts(S.PAUSING)) == ActionAllowed(
        StatusEvent.PAUSE_WITHDRAWN_EARLY
    )


def test_resuming_twice_is_the_same_while_the_step_waits_or_starts() -> None:
    for status in (S.QUEUED, S.PENDING):
        assert action_rules.allowed(JobAction.RESUME, facts(status, resumed=True)) == NoChange()
