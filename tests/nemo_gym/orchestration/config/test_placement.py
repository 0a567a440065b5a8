"""On which nodes servers run, and which GPUs they use there."""

from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import BASE, VLLM, changed

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import rules
from nemo_gym.orchestration.config.placement import Server, servers, uses_other_nodes
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_gym.schema import check_model


def config(services: dict[str, Any], *pools: int, gpus: int | None = 8) -> SubmitConfig:
    """A cluster with pools of so many nodes; none: this machine."""
    here: dict[str, Any] = {"type": "local", "gpus": gpus}
    if pools:
        here = {"type": "slurm", "account": "a", "node_pools": {}}
        for number, nodes in enumerate(pools):
            pool = {"partition": "p", "nodes": nodes, "gpus_per_node": gpus}
            here["node_pools"][f"p{number}"] = pool
    changes = {"services": services, "compute": {"here": here}, "driver/policy_model": next(iter(services))}
    return check_model(SubmitConfig, changed(changes, BASE), where="config")


def placed(services: dict[str, Any], *pools: int) -> list[tuple[str, int, int, int, int, int]]:
    found = servers(config(services, *pools))
    return [(one.service, one.replica, one.node, one.nodes, one.first_gpu, one.gpus) for one in found]


def problem(services: dict[str, Any], *pools: int, gpus: int | None = 8) -> str:
    with pytest.raises(ConfigError) as caught:
        rules.check(config(services, *pools, gpus=gpus))
    return str(caught.value)


def test_a_service_of_one_server_is_beside_the_driver_on_any_allocation():
    for pools in [(), (1,), (4,), (2, 2)]:
        found = config({"a": VLLM, "b": VLLM}, *pools)
        assert [(one.service, one.node, one.alone) for one in servers(found)] == [
            ("a", 0, True),
            ("b", 0, True),
        ]
        assert not uses_other_nodes(found)


def test_replicas_are_spread_evenly_and_share_the_gpus_of_a_node():
    wide = {**VLLM, "replicas": 5, "tensor_parallel_size": 2}
    assert placed({"a": wide}, 2) == [
        ("a", 0, 0, 1, 0, 2),
        ("a", 1, 1, 1, 0, 2),
        ("a", 2, 0, 1, 2, 2),
        ("a", 3, 1, 1, 2, 2),
        ("a", 4, 0, 1, 4, 2),
    ]
    assert [one[2] for one in placed({"a": wide})] == [0] * 5


def test_replicas_begin_after_the_gpus_of_services_before_them():
    services = {"a": {**VLLM, "tensor_parallel_size": 3}, "b": {**VLLM, "replicas": 2}}
    assert [one[4] for one in placed(services)] == [0, 3, 4]


def test_replicas_of_several_nodes_stand_one_after_the_other():
    wide = {**VLLM, "replicas": 2, "nodes": 2, "tensor_parallel_size": 8, "pipeline_parallel_size": 2}
    assert placed({"a": wide}, 4) == [("a", 0, 0, 2, 0, 8), ("a", 1, 2, 2, 0, 8)]
    assert placed({"a": {**wide, "node_pool": "p1"}}, 1, 4) == [("a", 0, 1, 2, 0, 8), ("a", 1, 3, 2, 0, 8)]


def test_a_pool_is_where_its_services_run():
    found = config({"a": VLLM, "b": {**VLLM, "node_pool": "p1", "replicas": 2}}, 1, 2)
    assert servers(found)[1:] == [Server("b", 0, 1, gpus=1), Server("b", 1, 2, gpus=1)]
    assert uses_other_nodes(found)
    rules.check(found)
    assert rules.warnings(found)[:1] == [
        "compute.here.walltime: it is not set, so the partition's default limit ends each job."
    ]


@pytest.mark.parametrize(
    ("service", "pools", "sentence"),
    [
        ({"nodes": 2, "pipeline_parallel_size": 2}, (), "services.a.nodes: compute.here is one machine"),
        ({"nodes": 2, "pipeline_parallel_size": 2}, (1,), "2 nodes are needed and 1 is there"),
        (
            {"nodes": 2, "replicas": 2, "pipeline_parallel_size": 2},
            (3,),
            "2 nodes x 2 replicas are needed and 3 are there",
        ),
        ({"nodes": 2, "tensor_parallel_size": 3}, (2,), "is 3, which 2 nodes cannot share evenly"),
        ({"nodes": 2, "number_of_instances": 3}, (2,), "number_of_instances: 2 nodes need a multiple of 2"),
        ({"replicas": 2, "port": 8000}, (2,), "services.a.port: 2 replicas need a port each"),
        ({"replicas": 2, "health_check": {"port": 80}}, (), "health_check.port: 2 replicas need a port each"),
        ({"replicas": 5, "tensor_parallel_size": 4}, (2,), "8 GPUs are there and node 0 of the job needs 12"),
        ({"replicas": 3, "tensor_parallel_size": 4}, (), "1 x 1 x 3 replicas"),
        ({"extra_args": "--nnodes 2"}, (2,), "--nnodes is set by submit (use the field nodes)"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(
    service: dict[str, Any], pools: tuple[int, ...], sentence: str
):
    assert sentence in problem({"a": {**VLLM, **service}}, *pools)


def test_sglang_spreads_no_instances_over_nodes():
    service = {"type": "sglang", "model": "m", "nodes": 2, "number_of_instances": 2}
    assert "sglang spreads no instances over nodes" in problem({"a": service}, 2)


def test_a_process_has_a_name_of_its_own_that_no_service_has():
    clash = {"a": {**VLLM, "replicas": 2}, "a-1": VLLM}
    assert "services.a-1: too like services.a, both become A_1" in problem(clash)
