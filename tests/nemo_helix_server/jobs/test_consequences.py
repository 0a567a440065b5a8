"""What an action would do and what would be lost, said before."""

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs import consequences
from nemo_helix_server.jobs.action_rules import JobAction
from nemo_helix_server.jobs.consequences import JobStanding
from nemo_helix_server.service.acting import OFFERED


def said(action, **changes):
    values = {
        "step": "training",
        "step_status": Status.ACTIVE,
        "trained_to": 57,
        "kept_step": 40,
        "checkpoints": 2,
        "storage_bytes": 2_000_000,
        "pause_deadline_seconds": 1800,
        "pause_window_seconds": 7 * 86_400,
        "maximum_window_seconds": 30 * 86_400,
    }
    return consequences.of(action, JobStanding(**{**values, **changes}))


CASES = [
    (JobAction.PAUSE, {}, "has 30 min for that", "goes on from that checkpoint"),
    (JobAction.PAUSE, {"step_status": Status.QUEUED}, "paused at once", "Nothing is lost"),
    (JobAction.PAUSE, {"step_status": Status.RESUMING}, "paused at once", "Nothing is lost"),
    (
        JobAction.RESUME,
        {"step_status": Status.PAUSED},
        "checkpoint of step 40",
        "17 training steps are done again",
    ),
    (JobAction.RESUME, {"step_status": Status.PAUSED, "trained_to": 40}, "step 40", "Nothing is lost"),
    (
        JobAction.RESUME,
        {"step_status": Status.PAUSED, "kept_step": None},
        "from its beginning",
        "57 training",
    ),
    (JobAction.RESUME, {"step_status": Status.PAUSING}, "withdrawn", "Nothing is lost"),
    (JobAction.RERUN, {"rerun": "goes on from its checkpoint of step 40"}, "step 40", "stays on record"),
    (
        JobAction.CANCEL,
        {},
        "cannot be resumed or run again",
        "(2 checkpoints, 2 MB). No checkpoint is pinned",
    ),
    (JobAction.CANCEL, {"pinned": 1}, "stopped", "1 pinned checkpoint stays"),
    (JobAction.CONTROL, {}, "at most 30 d", "Nothing is lost"),
    (JobAction.DELETE, {"pinned": 2}, "cannot be undone", "2 pinned checkpoints stay"),
]


@pytest.mark.parametrize(("action", "changes", "does", "loses"), CASES)
def test_each_says_what_it_does_and_what_is_lost(action, changes, does, loses):
    found = said(action, **changes)
    assert does in found.does
    assert loses in found.loses


def test_every_action_that_is_offered_has_words():
    for action in OFFERED:
        for status in Status:
            found = said(action, step_status=status)
            assert found.does.endswith(".")
            assert found.loses.endswith(".")
