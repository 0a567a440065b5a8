"""Whose record it is: each field alone disowns it, and only enough of them prove it."""

from __future__ import annotations

import dataclasses

import pytest

from nemo_slurm.identity import CLOCK_SLACK, belongs, is_proven
from nemo_slurm.observing import Witness, observed
from nemo_slurm.records import AccountingRun, SlurmJob
from nemo_slurm.states import read_state

AT = 1_800_000_000.0
JOB = SlurmJob("7", submitted_at=AT, token="gym-job-x/gpqa/", user=1000, name="gym-gpqa", began_at=AT + 60)
COMPLETED = read_state("COMPLETED")
assert COMPLETED is not None
OURS = AccountingRun(
    "7", COMPLETED, 0, 0, 90, AT + 5, AT + 50, AT + 140, 1, "gym-gpqa", "gym-job-x/gpqa/1", user=1000
)
OTHERS = {
    "another user": {"user": 1001},
    "root": {"user": 0},
    "another name": {"name": "train"},
    "another run's token": {"comment": "gym-job-y/gpqa/1"},
    "another benchmark's token": {"comment": "gym-job-x/gpqa2/1"},
    "a stranger's comment": {"comment": "my first job"},
    "a token that ends like ours": {"comment": "my-gym-job-x/gpqa/1"},
    "submitted before our sbatch": {"submitted_at": AT - CLOCK_SLACK - 1},
    "ended before our run began": {"ended_at": AT + 60 - CLOCK_SLACK - 1},
}


def changed(**changes: object) -> AccountingRun:
    return dataclasses.replace(OURS, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("rest", [{}, {"comment": ""}])
def test_any_field_that_disagrees_disowns_a_record(other: str, rest: dict[str, object]) -> None:
    assert belongs(JOB, changed(**rest))
    record = changed(**{**rest, **OTHERS[other]})
    assert not belongs(JOB, record)
    assert not is_proven(JOB, record)
    for rows in ([], None):
        seen = observed(JOB, rows, [record], asked=True)
        assert (seen.state, seen.source, seen.settled, seen.runs) == (None, Witness.NOBODY, False, ())


@pytest.mark.parametrize(
    ("change", "proven"),
    [
        ({}, True),
        ({"name": "another"}, False),
        ({"name": ""}, False),
        ({"user": 1001}, False),
        ({"user": None}, False),
        ({"submitted_at": None}, False),
        ({"submitted_at": AT - CLOCK_SLACK - 1}, False),
    ],
)
def test_a_name_that_no_other_job_has_proves_a_job_whose_comment_the_site_wrote(
    change: dict[str, object], proven: bool
) -> None:
    record = changed(**{"comment": "charged to 42", **change})
    job = dataclasses.replace(JOB, name_proves=True)
    assert belongs(job, record) is proven
    assert is_proven(job, record) is proven
    assert not belongs(JOB, record)


@pytest.mark.parametrize(
    ("record", "proven"),
    [
        (OURS, True),
        (changed(name="", user=None, submitted_at=None), True),
        (changed(comment=""), True),
        (changed(comment="", submitted_at=AT + 9 * 86_400, ended_at=AT + 9 * 86_400 + 1), True),
        (changed(comment="site=a;gym-job-x/gpqa/3"), True),
        (changed(comment="gym-job-x/gpqa/3 charged to 42"), True),
        (changed(comment="", user=None), False),
        (changed(comment="", name=""), False),
        (changed(comment="", submitted_at=None), False),
    ],
)
def test_the_token_proves_a_record_or_user_name_and_time_of_submission_together(
    record: AccountingRun, proven: bool
) -> None:
    assert belongs(JOB, record)
    assert is_proven(JOB, record) is proven
    assert observed(JOB, [], [record], asked=True).proven is proven


def test_what_is_not_known_of_a_job_speaks_against_nothing_and_proves_nothing() -> None:
    bare = SlurmJob("7")
    for changes in ({}, *OTHERS.values()):
        assert belongs(bare, changed(**changes))
        assert not is_proven(bare, changed(**changes))


@pytest.mark.parametrize(("part", "settled"), [("NODE_FAIL", "NODE_FAIL"), ("COMPLETED", "COMPLETED")])
def test_a_heterogeneous_job_ended_well_only_when_every_component_did(part: str, settled: str) -> None:
    state = read_state(part)
    assert state is not None
    component = changed(id="8", state=state, component_of="7")
    seen = observed(JOB, [], [OURS, component], asked=True)
    assert (seen.state and seen.state.name, len(seen.runs), seen.proven) == (settled, 1, True)
    stranger = dataclasses.replace(component, user=1001)
    seen = observed(JOB, [], [OURS, stranger], asked=True)
    assert seen.state is COMPLETED


@pytest.mark.parametrize("hours", [-26.0, -1.0, 0.0, 26.0])
@pytest.mark.parametrize("record_name", ["job-training-0123456789ab", ""])
def test_no_clock_speaks_against_a_job_whose_name_no_other_has(hours: float, record_name: str) -> None:
    token = "task-0123456789abcdef0123456789abcdef"
    asked_at = 1_796_000_000.0
    job = SlurmJob(
        "7", None, asked_at, token=token, user=1000, name="job-training-0123456789ab", name_proves=True
    )
    record = dataclasses.replace(
        OURS, id="7", comment=token, name=record_name, user=1000, submitted_at=asked_at + hours * 3600
    )
    record = dataclasses.replace(record, started_at=None, ended_at=None)
    assert is_proven(job, record)
    # of a name that others have, an earlier record is of a job that had its number before
    other = dataclasses.replace(job, name_proves=False)
    assert belongs(other, record) is (hours >= 0)
