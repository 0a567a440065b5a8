"""What a cluster's own words say about a job, whichever program queues it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nemo_runs.findings import Finding, FindingLevel, warning
from nemo_slurm.facts import ClusterFacts
from nemo_slurm.job_rules import KeyNames, WantedJob, judge, judge_limits
from nemo_slurm.records import Association, Partition

KEYS = KeyNames(account="A", partition="P", nodes="N", walltime="W", longer="it goes on later")
BATCH = Partition("batch", True, True, 4 * 3600, 3600, 2, 10, None)
CLOSED = Partition("closed", True, False, None, None, None, 4, ("physics",))


def facts(**changes: Any) -> ClusterFacts:
    values = {
        "user": "ada",
        "partitions": [BATCH, CLOSED],
        "associations": [Association("physics", "", None, 10), Association("biology", "", None, None)],
        "queued": {"physics": 9},
        "accounting": None,
        "config": {"AccountingStorageEnforce": "associations,limits"},
    }
    return ClusterFacts(**{**values, **changes})


def wanted(**changes: Any) -> WantedJob:
    values: dict[str, Any] = {"account": "physics", "partition": "batch", "nodes": 1, "seconds": 3600}
    return WantedJob(**{**values, **changes})


def judged(changes: dict[str, Any] | None = None, **said: Any) -> list[Finding]:
    return list(judge(wanted(**(changes or {})), KEYS, facts(**said)))


def test_a_job_that_fits_is_said_to_fit() -> None:
    assert [(one.verdict, one.text) for one in judged()] == [
        (FindingLevel.OK, "batch is up, with a time limit of 04:00:00"),
        (FindingLevel.OK, "ada may use physics"),
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"partition": "gpus"}, "P: there is no partition gpus; there is batch, closed."),
        ({"partition": "batch,gpus,,x"}, "P: there is no partition gpus, '', x; there is batch, closed."),
        (
            {"seconds": 5 * 3600},
            "W: 05:00:00 is more than batch allows; set 04:00:00 or less, and it goes on",
        ),
        ({"seconds": math.inf}, "W: UNLIMITED is more than batch allows"),
        ({"nodes": 3}, "N: 3 nodes are asked for, but batch gives a job at most 2 nodes."),
        ({"account": "chemistry"}, "A: ada may not use chemistry; there is physics, biology."),
        ({"account": "biology", "partition": "closed"}, "A: closed is open to physics only."),
    ],
)
def test_what_cannot_be_names_its_key_and_what_would_be_right(changes: dict[str, Any], sentence: str) -> None:
    (found,) = [one for one in judged(changes) if one.verdict is FindingLevel.PROBLEM]
    assert found.text.startswith(sentence)


def test_unlimited_is_right_where_there_is_no_limit() -> None:
    found = judged({"seconds": math.inf, "partition": "closed"})
    assert {one.verdict for one in found} == {FindingLevel.OK}


def test_several_partitions_that_are_there_are_the_scheduler_s_choice() -> None:
    (found,) = [one for one in judged({"partition": "batch,closed"}) if one.about == "partition"]
    assert found.verdict is FindingLevel.UNKNOWN


def test_a_job_of_no_account_gets_the_default_one() -> None:
    (found,) = [one for one in judged({"account": None}) if one.about == "account"]
    assert found.text == "ada has physics, biology, and jobs get the default of them"
    closed = judged({"account": None, "partition": "closed"})
    assert [one.verdict for one in closed if one.about == "partition"] == [
        FindingLevel.UNKNOWN,
        FindingLevel.OK,
    ]


@pytest.mark.parametrize(("count", "level"), [(1, FindingLevel.OK), (2, FindingLevel.WARNING)])
def test_the_caller_says_how_much_a_limit_on_queued_jobs_matters(count: int, level: FindingLevel) -> None:
    (found,) = judge_limits(wanted(count=count), facts(), lambda text: warning("limit", text))
    assert found.verdict is level
    assert "9 are queued, of at most 10 for physics" in found.text


def test_an_account_without_a_limit_has_none() -> None:
    assert list(judge_limits(wanted(account="biology"), facts(), lambda text: warning("limit", text))) == []
    assert list(judge_limits(wanted(account=None), facts(), lambda text: warning("limit", text))) == []
