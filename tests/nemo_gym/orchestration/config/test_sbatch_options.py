"""The head of a job script, from the compute entry of a submit config."""

from pathlib import Path
from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import VLLM, changed

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import rules
from nemo_gym.orchestration.config.sbatch_options import drain_seconds, sbatch_options
from nemo_gym.orchestration.config.schema import SlurmCompute, SubmitConfig

JOB = Path("/runs/gym-job-1/gpqa")
POOL = {"partition": "batch", "nodes": 1, "gpus_per_node": 8}


def compute(**changes: Any) -> SlurmCompute:
    values = {"type": "slurm", "account": "physics", "walltime": "04:00:00", "node_pools": {"gpu": POOL}}
    return SlurmCompute.model_validate({**values, **changes})


def lines(job_dir: Path = JOB, **changes: Any) -> list[str]:
    return sbatch_options("alps", compute(**changes), "gpqa", job_dir)


def problem(**changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        lines(**changes)
    return str(caught.value)


def test_all_lines_of_a_plain_cluster_are_as_here():
    assert lines() == [
        "--job-name=gym-gpqa",
        "--chdir=/runs/gym-job-1/gpqa",
        "--account=physics",
        "--partition=batch",
        "--time=04:00:00",
        "--nodes=1",
        "--ntasks-per-node=1",
        "--gpus-per-node=8",
        "--signal=B:USR1@120",
        "--no-requeue",
        "--open-mode=append",
    ]


def test_extra_arguments_are_added_and_may_replace_what_is_only_a_default():
    pool = {**POOL, "extra_args": {"constraint": "a100&nvlink"}}
    found = lines(node_pools={"gpu": pool}, extra_args={"qos": "high", "exclusive": True, "requeue": True})
    assert {"--qos=high", "--exclusive", "--requeue", "--constraint=a100&nvlink"} <= set(found)
    assert "--no-requeue" not in found
    found = lines(extra_args={"signal": "B:USR1@300", "open-mode": "truncate", "mem": 0, "hold": False})
    assert [line for line in found if "signal" in line or "open-mode" in line] == [
        "--signal=B:USR1@300",
        "--open-mode=truncate",
    ]
    assert "--mem=0" in found
    assert not any("hold" in line for line in found)


def test_several_pools_are_one_allocation():
    pools = {"serve": {**POOL, "nodes": 2}, "drive": {**POOL, "nodes": 1}}
    assert "--nodes=3" in lines(node_pools=pools)
    assert "compute.alps.node_pools.drive.partition: 'cpu', but compute.alps.node_pools.serve" in problem(
        node_pools={**pools, "drive": {**POOL, "partition": "cpu"}}
    )
    other = {"drive": {**POOL, "extra_args": {"mem": "4G"}}, "serve": {**POOL, "extra_args": {"mem": "8G"}}}
    assert "compute.alps.node_pools.serve.extra_args.mem" in problem(node_pools=other)


def test_without_pools_the_cluster_chooses_its_default_partition():
    found = lines(node_pools={}, walltime=None)
    assert "--nodes=1" in found
    assert not any("partition" in line or "time" in line for line in found)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"account": "phys ics"}, "compute.alps.account"),
        ({"account": "a\n#SBATCH --uid=0"}, "compute.alps.account"),
        ({"extra_args": {"exclude": "n1 n2"}}, "compute.alps.extra_args.exclude"),
        ({"extra_args": {"mail-user": '"; rm -rf /'}}, "compute.alps.extra_args.mail-user"),
        ({"extra_args": {"--qos": "x"}}, "'--qos' is not an option"),
        ({"extra_args": {"comment": "mine"}}, "compute.alps.extra_args.comment"),
        ({"extra_args": {"account": "other"}}, "compute.alps.extra_args.account"),
    ],
)
def test_what_cannot_stand_on_such_a_line_is_refused_by_its_path(changes: dict[str, Any], path: str):
    assert path in problem(**changes)


def test_a_folder_that_is_not_one_word_is_left_to_the_caller():
    assert not any("chdir" in line for line in lines(Path("/runs/it's a folder")))


@pytest.mark.parametrize(
    ("walltime", "given", "seconds"),
    [
        ("04:00:00", None, 120),
        ("10", None, 60),
        ("00:02:00", None, 20),
        ("00:00:30", None, 15),
        (None, None, 120),
        ("04:00:00", 600, 600),
    ],
)
def test_a_job_is_told_a_tenth_of_its_walltime_ahead_within_bounds(walltime: Any, given: Any, seconds: int):
    assert drain_seconds(compute(walltime=walltime, drain_seconds=given)) == seconds


SLURM = {"compute": {"alps": {"type": "slurm", "account": "physics", "node_pools": {"gpu": POOL}}}}


def config(changes: dict[str, Any]) -> SubmitConfig:
    return SubmitConfig.model_validate(changed(changes, changed(SLURM)))


def refused(changes: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        rules.check(config(changes))
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"services/policy/node_pool": "cpu"},
            "services.policy.node_pool: 'cpu' is not a pool of compute.alps",
        ),
        (
            {"compute/alps/node_pools/cpu": {"partition": "batch"}},
            "gpus_per_node must be the same in each",
        ),
        (
            {"compute/alps/container_runtime": "none", "services/policy/container": "img"},
            "services.policy.container: compute.alps.container_runtime is none",
        ),
        ({"services/policy/mounts": ["/a:/b"]}, "it runs in no container; use the path /a itself"),
        ({"services/policy/mounts": ["/a,b"]}, "a comma would end the mount"),
        ({"driver/container": "img"}, "driver.gym: name the path of `gym` inside driver.container"),
        (
            {"driver/gym_install": {"repo": "/srv/gym", "ref": "main"}, "driver/container": "img"},
            "driver.gym_install: a Gym is installed for the machine of the job and not inside",
        ),
        ({"compute/alps/account": "a b"}, "compute.alps.account: 'a b' cannot be written on an #SBATCH line"),
        (
            {"services/policy": {**VLLM, "tensor_parallel_size": 16}},
            "compute.alps.node_pools.gpu.gpus_per_node: 8 GPUs are there and 16 are needed",
        ),
    ],
)
def test_a_config_that_the_cluster_cannot_honour_is_refused(changes: dict[str, Any], sentence: str):
    assert sentence in refused(changes)


def test_each_job_has_a_node_of_its_own_so_ports_and_gpus_are_not_shared():
    two = {"driver/benchmarks/b": {"command": "true"}, "compute/alps/max_parallel": 2}
    found = config(
        {**two, "services/policy/port": 8000, "services/judge": {**VLLM, "number_of_instances": 8}}
    )
    rules.check(found)
    assert [text for text in rules.warnings(found) if "GPU" in text] == []


def test_what_is_most_likely_not_meant_is_told():
    found = rules.warnings(config({"compute/alps/node_pools/gpu/nodes": 2}))
    assert any("compute.alps.walltime" in text for text in found)
    assert any("the first of the 2 nodes" in text for text in found)
