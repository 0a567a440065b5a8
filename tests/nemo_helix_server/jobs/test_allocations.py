"""What one start leaves for the bill."""

import pytest

from nemo_helix_server.jobs.allocations import AllocationRecord, size_of


def record(**changes):
    return AllocationRecord(**{"began_at": 1000.0, "ended_at": 1100.0, **changes})


@pytest.mark.parametrize(
    ("executor", "size"),
    [
        ({"provider": "cpu"}, (1, 0)),
        ({"provider": "subprocess", "resources": {"num_gpus": 4}}, (1, 0)),
        ({"provider": "gpu"}, (1, 1)),
        ({"provider": "gpu", "resources": {"num_gpus": 0}}, (1, 0)),
        ({"provider": "gpu_distributed", "resources": {"num_gpus": 8, "num_nodes": 3}}, (3, 24)),
    ],
)
def test_what_a_step_holds(executor, size):
    assert size_of({"executor": executor}) == size


@pytest.mark.parametrize(
    ("changes", "steps", "seconds"),
    [
        # no training: nothing of it is kept or lost by steps
        ({}, 0, 0.0),
        # saved at the end, as before a pause
        ({"first_step": 0, "last_step": 40, "kept_step": 40, "kept_at": 1099.0}, 0, 0.0),
        ({"first_step": 0, "last_step": 47, "kept_step": 40, "kept_at": 1080.0}, 7, 20.0),
        # it saved nothing: an earlier start had kept 40
        ({"first_step": 40, "last_step": 47, "kept_step": 40}, 7, 100.0),
        # lost while it started: no step, but all of its time
        ({"first_step": 40, "last_step": 40, "kept_step": 40}, 0, 100.0),
        # the newest checkpoint is damaged: it goes on from before this start, which began at 40
        ({"first_step": 40, "last_step": 47, "kept_step": 20}, 7, 100.0),
        # a clock of its node that is ahead
        ({"first_step": 0, "last_step": 47, "kept_step": 40, "kept_at": 2000.0}, 7, 0.0),
    ],
)
def test_what_is_done_again(changes, steps, seconds):
    found = record(**changes)
    assert (found.repeated_steps, found.unsaved_seconds) == (steps, seconds)


def test_the_time_to_the_first_step_is_part_of_the_run():
    assert record(trained_since=1030.0).startup_seconds == 30.0
    assert record(trained_since=900.0).startup_seconds == 0.0
    assert record(trained_since=2000.0).startup_seconds == 100.0
    assert AllocationRecord(began_at=None, ended_at=1.0, trained_since=0.5).startup_seconds == 0.0


def test_a_record_is_read_back_and_anything_else_is_none():
    whole = record(
        nodes=2, gpus=16, place="job 7 on n1", unannounced=True, first_step=0, last_step=9, kept_step=5
    )
    assert AllocationRecord.read(whole.to_json()) == whole
    assert AllocationRecord.read(None) is None
    assert AllocationRecord.read("x") is None
    odd = {"began_at": "x", "ended_at": float("nan"), "nodes": -1, "gpus": True, "last_step": 1.5}
    assert AllocationRecord.read(odd) == AllocationRecord(began_at=None, ended_at=None)
