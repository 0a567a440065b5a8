"""What a tracker is told about a job in each of its statuses."""

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.trackers.planning import Plan, TrackerFacts, TrackerState, plan


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
