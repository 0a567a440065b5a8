"""Rules between values of a submit config, each a sentence with the dotted path and the remedy; all pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from nemo_gym.errors import ConfigError, UnsupportedError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.config import campaign, campaign_rules, gym_install, placement, slurm_rules
from nemo_gym.orchestration.config.schema import (
    BenchmarkJob,
    CommandService,
    LocalCompute,
    ModelService,
    SubmitConfig,
)
from nemo_runs.counts import counted, noun
from nemo_runs.secret_refs import looks_secret, parse_reference
from nemo_runs.suggestions import suggestion

_OURS = {
    "output_jsonl_fpath": "submit puts results into the run directory",
    "policy_service_name": "driver.policy_model names the service",
}
_SET_BY_SUBMIT = {
    "--host": "it depends on the node",
    "--port": "use the field port",
    "--api-key": "a random key is made in the job; an argument can be read by everybody",
    "--served-model-name": "use the field served_model_name",
    "--nnodes": "use the field nodes",
}
_RESERVED_LOGS = ("driver", "prepare", "install", "otel_collector")
_RUN = RunPaths(Path())
_RESERVED_FOLDERS = (_RUN.record.name, _RUN.resolved_config.name)


class Capabilities(Protocol):
    """What an executor says it can do."""

    name: ClassVar[str]
    supports_resumable: ClassVar[bool]
    supports_containers: ClassVar[bool]


def check(config: SubmitConfig) -> None:
    """Raise `ConfigError` for the first rule that the config breaks."""
    for rule in _RULES:
        for problem in rule(config):
            raise ConfigError(f"{problem}.")


def refuse_unsupported(config: SubmitConfig, executor: type[Capabilities] | Capabilities) -> None:
    """Raise `UnsupportedError` for the first thing that the executor cannot do."""
    if not executor.supports_resumable:
        for name, job in config.driver.benchmarks.items():
            if job.chain is not None:
                raise UnsupportedError(
                    f"driver.benchmarks.{name}.resumable: only executors that support it may set resumable, "
                    f"and {executor.name} does not; leave it out (resumable: false)."
                )
    if not executor.supports_containers:
        for path, remedy in _container_settings(config):
            raise UnsupportedError(f"{path}: the {executor.name} executor runs no containers; {remedy}.")


def _container_settings(config: SubmitConfig) -> Iterator[tuple[str, str]]:
    owners: list[tuple[str, Any]] = [(f"services.{n}", s) for n, s in config.services.items()]
    owners.append(("driver", config.driver))
    for path, owner in owners:
        if owner.container is not None:
            yield f"{path}.container", "leave it out: the program is taken from this machine"
        for mount in owner.mounts:
            source, *rest = mount.split(":")
            if rest and rest != [source]:
                yield f"{path}.mounts ('{mount}')", f"use the path {source} itself"
    if config.otel is not None and config.otel.container is not None:
        yield "otel.container", "leave it out and set otel.binary"


def warnings(config: SubmitConfig) -> list[str]:
    """What is allowed but most likely not meant."""
    found = list(_typed_secrets(config))
    gpus, needed = config.machine.gpus, _gpus_of_one_job(config)
    if gpus is not None and not placement.uses_other_nodes(config) and 0 < needed * _at_once(config) < gpus:
        idle = gpus - needed * _at_once(config)
        found.append(
            f"{_gpus_path(config)}: {idle} of {counted(gpus, 'GPU')} {noun(idle, 'stays', 'stay')} idle."
        )
    return [*found, *_chain_warnings(config), *slurm_rules.warnings(config)]


def _chain_warnings(config: SubmitConfig) -> Iterator[str]:
    chains = {name: job.chain for name, job in config.driver.benchmarks.items() if job.chain is not None}
    for name in chains:
        path = f"driver.benchmarks.{name}"
        if config.driver.benchmarks[name].run.get("resume_from_cache") is False:
            yield (
                f"{path}.resumable is set, and {path}.run.resume_from_cache is false: the chain's second job "
                "can only refuse the rollouts of the first, and ends the chain; leave out one of the two."
            )
    endless = [
        name
        for name, chain in chains.items()
        if chain.max_walltime is None and chain.max_links_without_progress is None
    ]
    if endless:
        yield (
            f"driver.benchmarks.{', '.join(endless)}: resumable sets neither max_walltime nor "
            "max_links_without_progress, so a chain that the scheduler ends again and again may resume "
            "without a limit."
        )


def _typed_secrets(config: SubmitConfig) -> Iterator[str]:
    owners: list[tuple[str, Mapping[str, str]]] = [
        (f"services.{name}.env", service.env) for name, service in config.services.items()
    ]
    for path, env in [*owners, ("driver.env", config.driver.env)]:
        for key, value in env.items():
            is_bare = parse_reference(value, where=path).kind == "lit" and not value.startswith("lit:")
            if is_bare and value and looks_secret(key):
                yield (
                    f"{path}.{key}: the value is written into resolved-config.yaml as it is; "
                    f"write host:{key} if it is a secret, lit:… if it is not."
                )


def _compute(config: SubmitConfig) -> Iterator[str]:
    if not config.compute:
        yield "compute: one entry is needed, such as compute.here.type=local; none is there"
    if len(config.compute) > 1:
        yield f"compute: exactly one entry is supported; there are {', '.join(config.compute)}"


def _placement(config: SubmitConfig) -> Iterator[str]:
    for name, service in config.services.items():
        if service.placement not in (None, config.cluster):
            wrong = f"services.{name}.placement: '{service.placement}' is not a compute entry"
            yield f"{wrong}; there is {config.cluster}"
        if service.node_pool is not None and isinstance(config.machine, LocalCompute):
            yield f"services.{name}.node_pool: compute.{config.cluster} declares no node pools; leave it out"


def _service_names(config: SubmitConfig) -> Iterator[str]:
    seen: dict[str, str] = {}
    for name, service in config.services.items():
        for process in placement.process_names(name, service):
            if process in _RESERVED_LOGS:
                yield f"services.{name}: the name is taken by a log of the job itself; choose another"
            variable = re.sub(r"[^A-Z0-9]", "_", process.upper())
            if variable in seen:
                other = seen[variable]
                yield f"services.{name}: too like services.{other}, both become {variable}; choose another"
            seen[variable] = name


def _services(config: SubmitConfig) -> Iterator[str]:
    for name, service in config.services.items():
        if isinstance(service, CommandService) and service.port is None and "{port}" not in service.command:
            yield (
                f"services.{name}.command: it cannot learn the port chosen when the job runs; "
                f"write {{port}} in it, or set services.{name}.port"
            )
        if isinstance(service, ModelService):
            yield from _extra_args(name, service.extra_args)


def _extra_args(name: str, text: str) -> Iterator[str]:
    path = f"services.{name}.extra_args"
    try:
        words = shlex.split(text)
    except ValueError as error:
        yield f"{path}: it cannot be split into words ({error}); quote it as for a shell"
        return
    for word in words:
        option = word.partition("=")[0]
        if option in _SET_BY_SUBMIT:
            yield f"{path}: {option} is set by submit ({_SET_BY_SUBMIT[option]}); take it out"


def _ports(config: SubmitConfig) -> Iterator[str]:
    seen: dict[int, str] = {}
    for name, service in config.services.items():
        if service.port is None:
            continue
        if service.port in seen:
            other = seen[service.port]
            yield f"services.{name}.port: {service.port} is the port of services.{other} too; leave it out"
        seen[service.port] = name
        if _at_once(config) > 1 and _copies(config, name) > 1:
            yield (
                f"services.{name}.port: {_at_once(config)} jobs run at once and each starts its own {name}, "
                f"so they cannot share port {service.port}; leave it out, or set max_parallel to 1"
            )


def _gpus(config: SubmitConfig) -> Iterator[str]:
    available = config.machine.gpus
    needed = _gpus_of_one_job(config) * _at_once(config)
    if available is None or needed <= available or placement.uses_other_nodes(config):
        return
    parts = [
        f"{name} {s.tensor_parallel_size} x {s.pipeline_parallel_size} x {s.number_of_instances}"
        + (f" x {s.replicas} replicas" if s.replicas > 1 else "")
        for name, s in config.services.items()
        if isinstance(s, ModelService)
    ]
    times = f", by {_at_once(config)} jobs at once" if _at_once(config) > 1 else ""
    yield (
        f"{_gpus_path(config)}: {counted(available, 'GPU is', 'GPUs are')} there and "
        f"{counted(needed, 'is', 'are')} needed (tensor parallel "
        f"x pipeline parallel x instances: {', '.join(parts)}{times}); make the services smaller"
    )


def _gpus_path(config: SubmitConfig) -> str:
    """Where it is said how many GPUs a job finds."""
    if isinstance(config.machine, LocalCompute):
        return f"compute.{config.cluster}.gpus"
    return f"compute.{config.cluster}.node_pools.{next(iter(config.machine.node_pools))}.gpus_per_node"


def _gpus_of_one_job(config: SubmitConfig) -> int:
    """GPUs of the job that needs most of them."""
    jobs = [share.config for share in campaign.shares(config)] or [config]
    return max(
        sum(service.gpus for service in job.services.values() if isinstance(service, ModelService))
        for job in jobs
    )


def _at_once(config: SubmitConfig) -> int:
    """How many jobs share one machine; a cluster gives each its own."""
    if not isinstance(config.machine, LocalCompute):
        return 1
    return min(config.machine.max_parallel, len(campaign.shares(config) or config.driver.benchmarks))


def _copies(config: SubmitConfig, service: str) -> int:
    """How many jobs start a service."""
    shares = campaign.shares(config)
    if not shares:
        return len(config.driver.benchmarks)
    return sum(service in share.config.services for share in shares)


def _policy(config: SubmitConfig) -> Iterator[str]:
    policy = config.driver.policy_model
    if policy is None or policy in config.services:
        return
    hint = suggestion(policy, config.services) or f"; there is {', '.join(config.services) or 'none'}"
    yield f"driver.policy_model: '{policy}' is not a service{hint}"


def _benchmarks(config: SubmitConfig) -> Iterator[str]:
    for name, job in config.driver.benchmarks.items():
        path = f"driver.benchmarks.{name}"
        if name in _RESERVED_FOLDERS:
            yield f"{path}: the name is taken by a file of the run directory; choose another"
        yield from _command(path, job)
        for key, reason in _OURS.items():
            if key in job.run:
                yield f"{path}.run.{key}: {reason}; leave it out"
        yield from _wiring(path, job, config.driver.policy_model)


def _command(path: str, job: BenchmarkJob) -> Iterator[str]:
    if job.command is None and not job.run:
        yield f"{path}: nothing to run; set {path}.run (config_paths, at least) or {path}.command"
    if job.command is not None and job.run:
        yield f"{path}.command: a command runs instead of gym eval run; leave out {path}.run or the command"
    if job.command is not None and job.chain is not None:
        yield f"{path}.resumable: not with a command, since resuming relies on the cache of gym eval run"


def _wiring(path: str, job: BenchmarkJob, policy: str | None) -> Iterator[str]:
    given = [key for key in campaign.ADDRESS if key in job.run]
    if policy is not None and given:
        yield (
            f"{path}.run: {', '.join(given)} would be overruled by driver.policy_model ({policy}); "
            "leave out one or the other"
        )


def _otel(config: SubmitConfig) -> Iterator[str]:
    if config.otel is not None and config.otel.enabled:
        for key in ("endpoint", "service_name"):
            if not getattr(config.otel, key):
                yield f"otel.{key}: it is needed; set it, or otel.enabled=false"


def _no_nul(config: SubmitConfig) -> Iterator[str]:
    yield from _nul_paths(config.model_dump(mode="json"), "")


def _nul_paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and "\0" in value:
        yield f"{path}: a NUL character can be in no file name, argument or variable; take it out"
    items: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    for key, item in items:
        yield from _nul_paths(item, f"{path}.{key}" if path else str(key))


Rule = Callable[[SubmitConfig], Iterator[str]]

_RULES: tuple[Rule, ...] = (
    _no_nul,
    _compute,
    _placement,
    _service_names,
    _services,
    _ports,
    _policy,
    _benchmarks,
    campaign_rules.problems,
    _gpus,
    _otel,
    placement.problems,
    gym_install.problems,
    slurm_rules.problems,
)
