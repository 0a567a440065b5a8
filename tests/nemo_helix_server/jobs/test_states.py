"""The state machine: every pair of status and event, against the page in the docs."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path

import pytest

from nemo_helix_plugin.jobs.types import TERMINAL
from nemo_helix_plugin.jobs.types import HelixJobStatus as S
from nemo_helix_server.jobs import deadlines, states, task_states
from nemo_helix_server.jobs.states import StatusEvent, StatusReason

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "job-statuses.md"
EDGE = re.compile(
    r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| (?:user|controller|service|retention) \|", re.MULTILINE
)


def documented() -> dict[tuple[S, StatusEvent], S]:
    found = EDGE.findall(PAGE.read_text(encoding="utf-8"))
    return {(S(origin), StatusEvent(event)): S(to) for origin, event, to in found}


@pytest.mark.parametrize(("status", "event"), list(itertools.product(S, StatusEvent)))
def test_every_pair_is_what_the_page_says(status: S, event: StatusEvent) -> None:
    assert states.after(status, event) == documented().get((status, event))


def test_the_page_is_written_from_the_code() -> None:
    path = ROOT / "scripts" / "write_job_statuses.py"
    spec = importlib.util.spec_from_file_location("write_job_statuses", path)
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.page() == PAGE.read_text(encoding="utf-8"), "run `make reference` to write it anew"


def test_an_edge_is_there_once() -> None:
    assert len({(row.origin, row.event) for row in states.TABLE}) == len(states.TABLE)


@pytest.mark.parametrize("status", [*sorted(TERMINAL), S.DELETION_PENDING])
def test_a_step_never_leaves_its_end(status: S) -> None:
    assert {row.event for row in states.TABLE if row.origin is status} <= states.JOB_EVENTS


@pytest.mark.parametrize("status", [s for s in S if s not in {*TERMINAL, S.DELETION_PENDING}])
def test_every_other_status_can_be_cancelled_and_has_a_way_out(status: S) -> None:
    cancelled = states.after(status, StatusEvent.CANCEL_REQUESTED)
    assert status is S.CANCELLING or cancelled in {S.CANCELLED, S.CANCELLING}
    found = [one for one in deadlines.DEADLINES if one.status is status]
    if status is not S.ACTIVE:
        assert len(found) == 1
        assert states.after(status, found[0].event) is not None


def test_cancelling_ends_cancelled_and_nowhere_else() -> None:
    assert {row.to for row in states.TABLE if row.origin is S.CANCELLING} == {S.CANCELLED}


def test_every_status_can_be_reached() -> None:
    reached = {S.CREATION_PENDING}
    while True:
        more = {row.to for row in states.TABLE if row.origin in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(S)


def test_every_reason_explains_a_status_and_every_default_is_one() -> None:
    assert set(states.REASONS) == set(StatusReason)
    assert set(states.DEFAULT_REASONS.values()) <= set(StatusReason)


def test_callers_who_name_a_status_get_the_event_that_leads_there() -> None:
    assert states.event_between(S.ACTIVE, S.COMPLETED) is StatusEvent.FINISHED
    assert states.event_between(S.COMPLETED, S.ACTIVE) is None
    assert states.event_between(S.ERROR, S.CREATED) is None


@pytest.mark.parametrize(
    ("steps", "planned", "expected"),
    [
        ([S.PENDING], 2, S.PENDING),
        ([S.COMPLETED, S.PENDING], 2, S.ACTIVE),
        ([S.COMPLETED, S.CREATED], 2, S.ACTIVE),
        ([S.COMPLETED, S.QUEUED], 2, S.QUEUED),
        ([S.COMPLETED, S.PAUSED], 2, S.PAUSED),
        ([S.COMPLETED], 2, S.ACTIVE),
        ([S.COMPLETED, S.COMPLETED], 2, S.COMPLETED),
        ([S.COMPLETED, S.ERROR], 3, S.ERROR),
    ],
)
def test_an_attempt_shows_its_newest_step(steps: list[S], planned: int, expected: S) -> None:
    assert states.derive_attempt(steps, planned) is expected
    assert states.derive_job(expected) is expected
    assert states.derive_job(expected, deleting=True) is S.DELETION_PENDING


def test_a_task_never_starts_again() -> None:
    for end in (*TERMINAL, S.PAUSED):
        assert [to for to in S if task_states.task_may_become(end, to)] == [end]
    assert task_states.task_after(S.ACTIVE, StatusEvent.INTERRUPTED) is S.ERROR
    assert task_states.task_after(S.COMPLETED, StatusEvent.FAILED) is None
