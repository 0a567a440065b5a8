"""What a tracker is told about a job in each of its statuses."""

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.model import CheckpointRow, WritersStart
from nemo_helix_server.trackers.planning import (
    Plan,
    TrackerFacts,
    TrackerState,
    before_evaluation,
    covered,
    plan,
)


def planned(status, **facts):
    return plan(TrackerFacts(status=status, **facts))


@pytest.mark.parametrize(
    ("facts", "to"),
    [
        ({"newest": 17, "covered": 10}, 10),
        ({"newest": 17}, 0),
        # the newest step may still get the values of a validation
        ({"newest": 10, "covered": 10}, 9),
        ({"newest": 17, "covered": 10, "published": 12}, 12),
        # training went on from an older checkpoint than the newest one that is there
        ({"newest": 6, "covered": 10, "published": 5}, 5),
    ],
)
def test_while_it_runs_only_what_a_checkpoint_covers(facts, to):
    assert planned(Status.ACTIVE, **facts) == Plan(to, TrackerState.RUNNING, settled=False)


def test_at_a_pause_up_to_its_checkpoint():
    facts = {"newest": 17, "covered": 17, "published": 10, "said": TrackerState.RUNNING}
    assert planned(Status.PAUSED, **facts) == Plan(17, TrackerState.PAUSED, settled=True)


def test_a_failed_job_may_be_run_again_from_its_checkpoint_until_its_storage_is_gone():
    facts = {"newest": 17, "covered": 10, "published": 10, "said": TrackerState.RUNNING}
    assert planned(Status.ERROR, **facts) == Plan(10, TrackerState.FAILED, settled=True)
    gone = {**facts, "covered": 0, "final": True, "said": TrackerState.FAILED}
    assert planned(Status.ERROR, **gone) == Plan(17, None, settled=True)


@pytest.mark.parametrize(
    ("status", "state"), [(Status.COMPLETED, TrackerState.FINISHED), (Status.CANCELLED, TrackerState.KILLED)]
)
def test_what_is_over_is_told_to_its_end(status, state):
    assert planned(status, newest=17, covered=10, published=10) == Plan(17, state, settled=True)


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RESUMING, Status.PENDING, Status.CREATED])
def test_of_a_job_that_waits_the_state_stays(status):
    facts = {"newest": 17, "covered": 17, "published": 17, "said": TrackerState.PAUSED}
    assert planned(status, **facts) == Plan(17, None, settled=False)


@pytest.mark.parametrize("status", list(Status))
def test_a_job_that_never_trained_has_no_run(status):
    told = planned(status)
    assert (told.to, told.state) == (0, None)


@pytest.mark.parametrize("status", list(Status))
def test_nothing_is_told_twice(status):
    first = planned(status, newest=9, covered=9)
    again = plan(TrackerFacts(status=status, newest=9, covered=9, published=first.to, said=first.state))
    assert (again.to, again.state) == (first.to, None)


def saved(step, generation=0, *, attempt="first", **changes):
    values = dict.fromkeys(CheckpointRow.__dataclass_fields__)
    values |= {"step": step, "generation": generation, "attempt_id": attempt, "present": True, **changes}
    return CheckpointRow(**values)


@pytest.mark.parametrize(
    ("checkpoints", "start", "expected"),
    [
        ([], (0, 0), 0),
        # no generation is named: all count
        ([saved(4), saved(10)], (0, 0), 10),
        ([saved(4), saved(10)], (4, 0), 10),
        # a later generation went on from step 4: what the one before had saved beyond that is trained again
        ([saved(4, 1), saved(10, 1)], (4, 2), 4),
        ([saved(4, 1), saved(10, 1), saved(6, 2)], (4, 2), 6),
        ([saved(4, 1), saved(10, 1)], (0, 2), 0),
        # its own and those of later generations than the store has heard of
        ([saved(10, 3)], (4, 2), 10),
        # what is damaged, or only a copy elsewhere, is not gone on from
        ([saved(4), saved(10, problem="damaged")], (0, 0), 4),
        ([saved(4), saved(10, present=False)], (0, 0), 4),
    ],
)
def test_what_an_outdated_generation_saved_covers_nothing_that_is_trained_again(checkpoints, start, expected):
    found = covered(checkpoints, WritersStart(*start), attempt_id="first", asked_for=None)
    assert found == expected


def test_a_rerun_covers_what_it_was_asked_to_start_from_until_it_has_saved():
    asked_for, later, own = saved(4, 1), saved(10, 1), saved(6, 2, attempt="second")
    before = covered([asked_for, later], WritersStart(0, 1), attempt_id="second", asked_for=asked_for)
    after = covered([asked_for, later, own], WritersStart(4, 2), attempt_id="second", asked_for=asked_for)
    assert (before, after) == (4, 6)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({}, 20),
        ({"evaluation": {"running": None}}, 20),
        ({"evaluation": {"running": 10}}, 9),
        ({"evaluation": {"running": 30}}, 20),
        ({"evaluation": "x"}, 20),
    ],
)
def test_a_step_that_is_being_evaluated_waits_for_its_score(details, expected):
    assert before_evaluation(20, details) == expected
