"""On which nodes of an allocation the servers of services run, and which GPUs of them they use. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nemo_gym.orchestration.config.schema import (
    BaseService,
    ModelService,
    ServiceConfig,
    SlurmCompute,
    SubmitConfig,
)
from nemo_runs.counts import counted


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a service. A service has one, or as many as it has replicas."""

    service: str
    replica: int
    """From 0."""
    node: int
    """Its first node in the allocation, from 0; the driver runs on node 0."""
    nodes: int = 1
    """How many nodes it spans, from the first one on."""
    gpus: int = 0
    """On each of its nodes; 0 where the configuration does not say it."""
    first_gpu: int = 0
    """The number of the first one of them there."""
    alone: bool = True
    """Whether no other replica of its service is on its nodes."""


def servers(config: SubmitConfig) -> list[Server]:
    """Every server of every service, in the order of the services.

    Replicas are spread evenly over the nodes of the service's pool, or of the whole allocation; where one
    spans several nodes, the next one follows it. What `problems` says is not looked at: where nodes are too
    few, they are used again from the first one on.
    """
    found: list[Server] = []
    used: dict[int, int] = {}
    for name, service in config.services.items():
        pool = _nodes(config, service)
        spans = service.nodes if isinstance(service, ModelService) else 1
        gpus = service.gpus_of_node if isinstance(service, ModelService) else 0
        for replica in range(service.replicas):
            node = pool[replica * spans % len(pool)]
            first = used.get(node, 0)
            alone = service.replicas <= len(pool) // spans
            found.append(Server(name, replica, node, spans, gpus, first, alone))
            for taken in range(node, node + spans):
                used[taken] = first + gpus
    return found


def process_names(name: str, service: ServiceConfig) -> Iterator[str]:
    """What its processes are called, which is also what their logs are called."""
    spans = service.nodes if isinstance(service, ModelService) else 1
    for replica in range(service.replicas):
        for rank in range(spans):
            yield process_name(name, replica, rank, of=service.replicas)


def process_name(name: str, replica: int, rank: int, *, of: int) -> str:
    """The name of the process on the node of that rank of one of so many replicas."""
    name = name if of == 1 else f"{name}-{replica}"
    return name if rank == 0 else f"{name}-node-{rank}"


def problems(config: SubmitConfig) -> Iterator[str]:
    """What is wrong with nodes, replicas and sizes, each a sentence without its full stop."""
    for name, service in config.services.items():
        path = f"services.{name}"
        if service.replicas > 1 and service.port is not None:
            yield f"{path}.port: {service.replicas} replicas need a port each; leave it out"
        if service.replicas > 1 and service.health_check and service.health_check.port is not None:
            yield f"{path}.health_check.port: {service.replicas} replicas need a port each; leave it out"
        if isinstance(service, ModelService) and service.nodes > 1:
            yield from _spanning(path, service, config)
    yield from _gpus_of_nodes(config)


def _spanning(path: str, service: ModelService, config: SubmitConfig) -> Iterator[str]:
    there, needed = len(_nodes(config, service)), service.nodes * service.replicas
    if not isinstance(config.machine, SlurmCompute):
        yield f"{path}.nodes: compute.{config.cluster} is one machine; leave it out"
    elif needed > there:
        times = f" x {service.replicas} replicas" if service.replicas > 1 else ""
        yield f"{path}.nodes: {service.nodes} nodes{times} are needed and {counted(there, 'is', 'are')} there"
    if service.number_of_instances > 1 and not service.spreads_instances:
        yield (
            f"{path}.nodes: {service.type} spreads no instances over nodes; leave out number_of_instances "
            "and set replicas"
        )
    elif service.number_of_instances > 1 and service.number_of_instances % service.nodes:
        yield f"{path}.number_of_instances: {service.nodes} nodes need a multiple of {service.nodes}"
    elif service.number_of_instances == 1 and service.gpus_of_server % service.nodes:
        yield (
            f"{path}.nodes: tensor_parallel_size x pipeline_parallel_size is {service.gpus_of_server}, which "
            f"{service.nodes} nodes cannot share evenly"
        )


def _gpus_of_nodes(config: SubmitConfig) -> Iterator[str]:
    machine = config.machine
    if not isinstance(machine, SlurmCompute) or machine.gpus is None or not uses_other_nodes(config):
        return
    needed: dict[int, int] = {}
    for server in servers(config):
        for node in range(server.node, server.node + server.nodes):
            needed[node] = needed.get(node, 0) + server.gpus
    node, most = max(needed.items(), key=lambda item: item[1], default=(0, 0))
    if most > machine.gpus:
        pool = next(iter(machine.node_pools))
        yield (
            f"compute.{config.cluster}.node_pools.{pool}.gpus_per_node: "
            f"{counted(machine.gpus, 'GPU is', 'GPUs are')} there and node {node} of the job needs {most}; "
            "make the services smaller, or the pool larger"
        )


def uses_other_nodes(config: SubmitConfig) -> bool:
    """Whether a server runs on another node than the driver's."""
    return any(server.node or server.nodes > 1 for server in servers(config))


def _nodes(config: SubmitConfig, service: BaseService) -> list[int]:
    """The nodes on which a service may run: of its pool, else all; always one at least."""
    machine = config.machine
    if not isinstance(machine, SlurmCompute):
        return [0]
    first = 0
    for name, pool in machine.node_pools.items():
        if name == service.node_pool:
            return list(range(first, first + pool.nodes))
        first += pool.nodes
    return list(range(machine.nodes))
