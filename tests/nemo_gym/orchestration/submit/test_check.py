"""What `gym eval check` makes of a cluster's own words."""

from dataclasses import replace
from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import changed

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.schema import SlurmCompute, SubmitConfig
from nemo_gym.orchestration.submit import check
from nemo_runs.findings import Finding, FindingLevel
from nemo_slurm.facts import ClusterFacts
from nemo_slurm.records import Association, Partition

SLURM = {
    "compute": {
        "alps": {
            "type": "slurm",
            "account": "physics",
            "walltime": "04:00:00",
            "node_pools": {"gpu": {"partition": "batch"}},
        }
    }
}
BATCH = Partition("batch", True, True, 4 * 3600, 3600, 2, 10, None)


def judged(changes: dict[str, Any] | None = None, **facts: Any) -> list[Finding]:
    config = SubmitConfig.model_validate(changed(changes or {}, changed(SLURM)))
    values = {
        "user": "ada",
        "partitions": [BATCH],
        "associations": [Association("physics", "", None, 10)],
        "queued": {"physics": 2, "biology": 400},
        "accounting": None,
        "config": {"AccountingStorageEnforce": "associations,limits,qos"},
    }
    compute = config.machine
    assert isinstance(compute, SlurmCompute)
    return check.judge(config, compute, ClusterFacts(**{**values, **facts}))


def problems(found: list[Finding]) -> list[str]:
    return [finding.text for finding in found if finding.verdict is FindingLevel.PROBLEM]


def test_a_config_that_fits_is_said_to_fit():
    found = judged()
    assert {finding.verdict for finding in found} == {FindingLevel.OK}
    assert [finding.about for finding in found] == ["partition", "account", "submit limit"]


@pytest.mark.parametrize(
    ("changes", "facts", "sentence"),
    [
        (
            {"compute/alps/walltime": "1-00"},
            {},
            "compute.alps.walltime: 1-00:00:00 is more than batch allows",
        ),
        (
            {"compute/alps/node_pools/gpu/partition": "gpus"},
            {},
            "compute.alps.node_pools.gpu.partition: there is no partition gpus; there is batch",
        ),
        (
            {"compute/alps/node_pools/gpu/nodes": 3},
            {},
            "3 nodes are asked for, but batch gives a job at most 2",
        ),
        ({}, {"partitions": [Partition("batch", False, True, None, None, None, 1, None)]}, "batch is not up"),
        (
            {},
            {"partitions": [Partition("batch", True, True, None, None, None, 1, ("biology",))]},
            "compute.alps.account: batch is open to biology only",
        ),
        (
            {},
            {"associations": [Association("biology", "", None, None)]},
            "ada may not use physics; there is biology",
        ),
        (
            {},
            {"queued": {"physics": 10}},
            "1 job is needed at once and 10 are queued, of at most 10 for physics",
        ),
        (
            {"driver/benchmarks/sums/resumable": True},
            {"alloc_nodes": {"batch": "login[1-2]"}},
            "compute.alps.queue_from: jobs may be submitted from login[1-2] only; set it to login",
        ),
    ],
)
def test_what_would_fail_is_said_with_what_to_change(changes, facts, sentence):
    found = problems(judged(changes, **facts))
    assert len(found) == 1
    assert sentence in found[0]
    with pytest.raises(ConfigError, match=r"\.$"):
        check.refuse(judged(changes, **facts))


IMAGE = {"driver/container": "registry.example#org/gym:1", "driver/gym": "/usr/bin/gym"}


@pytest.mark.parametrize(
    ("runtime", "known", "verdict"),
    [
        (None, False, FindingLevel.PROBLEM),
        ("pyxis", False, FindingLevel.WARNING),
        (None, None, FindingLevel.UNKNOWN),
        (None, True, FindingLevel.OK),
        ("apptainer", False, None),
    ],
)
def test_a_container_where_srun_knows_none_is_told_before_a_job_fails_of_it(runtime, known, verdict):
    chosen = {"compute/alps/container_runtime": runtime} if runtime else {}
    found = [one for one in judged({**IMAGE, **chosen}, containers=known) if one.about == "containers"]
    assert [one.verdict for one in found] == ([] if verdict is None else [verdict])
    if known is False and found:
        assert found[0].text.startswith("driver.container: srun takes no --container-image")
        assert "compute.alps.container_runtime" in found[0].text


def test_what_cannot_be_seen_is_no_problem():
    found = judged(partitions=None, associations=None, queued=None, accounting="down")
    assert problems(found) == []
    assert [finding.about for finding in found if finding.verdict is FindingLevel.UNKNOWN] == [
        "partition",
        "account",
    ]


def test_a_chain_without_accounting_and_readable_job_scripts_are_warned_of():
    changes = {"driver/benchmarks/sums/resumable": True, "driver/env": {"HF_TOKEN": "host:HF_TOKEN"}}
    flags = {
        "AccountingStorageEnforce": "associations,limits",
        "AccountingStoreFlags": "job_comment,job_script",
    }
    found = judged(changes, accounting="Slurm accounting storage is disabled", config=flags)
    warned = [finding.text for finding in found if finding.verdict is FindingLevel.WARNING]
    assert len(warned) == 2
    assert "Slurm accounting storage is disabled" in warned[0]
    assert "`sacct -B`" in warned[1]


def test_a_walltime_that_is_not_set_is_told_with_what_the_partition_gives():
    (told,) = [f.text for f in judged({"compute/alps/walltime": ...}) if f.verdict is FindingLevel.WARNING]
    assert told == "compute.alps.walltime: it is not set; batch gives 01:00:00."


def test_space_that_is_not_there_is_told():
    assert check.judge_space("/a/b", "/a", writable=False, free=1).verdict is FindingLevel.PROBLEM
    assert check.judge_space("/a/b", "/a", writable=True, free=1000).verdict is FindingLevel.WARNING
    assert check.judge_space("/a/b", "/a", writable=True, free=9 << 20).text == "9.66 GB are free at /a"


def odd(**values: Any) -> Partition:
    return replace(BATCH, **values)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        # limits and states that cannot be read
        ({}, {"partitions": [odd(max_seconds=None, unread=("MaxTime=Partition_Limit",))]}),
        ({}, {"partitions": [odd(max_seconds=None, unread=("MaxTime=-0:00:16",))]}),
        ({}, {"partitions": [odd(up=None)]}),
        # a site's own program may choose the partition
        ({"compute/alps/node_pools": {}}, {"partitions": [odd(default=False)]}),
        # what accounting keeps, and nobody holds jobs to
        ({"compute/alps/account": "chemistry"}, {"config": {"AccountingStorageEnforce": "none"}}),
        ({"compute/alps/account": "chemistry"}, {"config": {}}),
        ({}, {"queued": {"physics": 10}, "config": {"AccountingStorageEnforce": "associations"}}),
    ],
)
def test_what_is_odd_about_a_cluster_is_unknown_and_never_the_users_error(changes, facts):
    found = judged(changes, **facts)
    assert problems(found) == []
    assert FindingLevel.UNKNOWN in {finding.verdict for finding in found}


def test_what_is_another_accounts_or_another_partitions_is_not_compared():
    rows = [Association("physics", "", None, 10), Association("physics", "debug", None, 1)]
    other = odd(name="debug", default=False, max_seconds=60, unread=("MaxTime=Partition_Limit",))
    found = judged({"compute/alps/account": "Physics"}, associations=rows, partitions=[other, BATCH])
    assert {finding.verdict for finding in found} == {FindingLevel.OK}


def test_a_time_limit_that_cannot_be_read_is_not_said_to_be_none():
    found = judged(partitions=[odd(max_seconds=None, unread=("MaxTime=Partition_Limit",))])
    texts = [finding.text for finding in found if finding.about == "partition"]
    assert texts == ["batch is up, with a time limit that cannot be read"]
