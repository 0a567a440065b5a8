"""From the services of a config to the server processes of a job. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nemo_gym.orchestration.config.placement import Server, process_name, servers
from nemo_gym.orchestration.config.schema import CommandService, ModelService, ServiceConfig, SubmitConfig
from nemo_gym.orchestration.plan import server_commands
from nemo_gym.orchestration.plan.benchmark_runs import served_name
from nemo_gym.orchestration.plan.values import ServicePlan, StepImage
from nemo_runs.secret_refs import Reference, parse_reference

_COMMAND_PATH, _MODEL_PATH = "/v1/models", "/health"


def service_plans(config: SubmitConfig) -> list[ServicePlan]:
    """One plan for each process: of every replica of every service, and of every node that it spans."""
    found: list[ServicePlan] = []
    for server in servers(config):
        service = config.services[server.service]
        found += _processes(server, service, head=len(found))
    return found


def _processes(server: Server, service: ServiceConfig, *, head: int) -> Iterator[ServicePlan]:
    host = server_commands.LOOPBACK if server.node == 0 and server.nodes == 1 else server_commands.EVERYWHERE
    for rank in range(server.nodes):
        plan = _service(server.service, service)
        argv = None
        if isinstance(service, ModelService):
            argv = server_commands.arguments(service, rank=rank, host=host)
        yield replace(
            plan,
            name=process_name(server.service, server.replica, rank, of=service.replicas),
            service=server.service,
            argv=argv,
            health_path=plan.health_path if rank == 0 else "",
            gpus=server.gpus,
            node=server.node + rank,
            head=head,
            replica=server.replica if service.replicas > 1 else None,
            first_gpu=None if server.alone or not server.gpus else server.first_gpu,
        )


def _service(name: str, service: ServiceConfig) -> ServicePlan:
    health = service.health_check
    path = _COMMAND_PATH if isinstance(service, CommandService) else _MODEL_PATH
    return ServicePlan(
        name=name,
        kind=service.type,
        argv=None,
        shell=service.command if isinstance(service, CommandService) else None,
        port=service.port,
        model_name=served_name(service),
        health_path=(health.path if health else None) or path,
        health_port=health.port if health else None,
        health_timeout=health.timeout_seconds if health else 600,
        env=_references(service.env),
        pre_command=service.pre_command,
        container=None if service.container is None else StepImage(service.container, tuple(service.mounts)),
    )


def _references(env: Mapping[str, str]) -> dict[str, Reference]:
    return {key: parse_reference(value, where=key) for key, value in env.items()}
