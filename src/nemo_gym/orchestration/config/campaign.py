"""A campaign: several policy models, each of which answers every benchmark. Pure.

It is taken apart into one config for each model, which is what a submission of that model alone would be. Its
benchmarks are named ``<model>.<benchmark>`` there, after their folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym import composition
from nemo_gym.orchestration.config.schema import (
    BenchmarkJob,
    ModelService,
    PolicyModel,
    ServiceConfig,
    SubmitConfig,
)

STEP = "{step}"
"""Stands for the step of a series."""
ADDRESS = ("policy_base_url", "policy_model_name", "policy_api_key")
"""Keys of ``run`` that say who answers."""


@dataclass(frozen=True, slots=True)
class ModelShare:
    """One model of a campaign."""

    name: str
    """As in ``driver.models``; of a series ``<name>-<step>``."""
    config: SubmitConfig
    """What concerns this model alone."""
    benchmarks: Mapping[str, str]
    """Name of a benchmark in `config` -> its name in ``driver.benchmarks``."""


def shares(config: SubmitConfig) -> list[ModelShare]:
    """The models of a campaign in their order; empty for a config without ``driver.models``."""
    return [
        _share(config, key, name, step)
        for key, model in config.driver.models.items()
        for name, step in series(key, model)
    ]


def share_of(config: SubmitConfig, benchmark: str) -> SubmitConfig:
    """The config of the model that a record's benchmark belongs to; without a campaign the config itself."""
    return next((share.config for share in shares(config) if benchmark in share.benchmarks), config)


def series(key: str, model: PolicyModel) -> Iterator[tuple[str, str]]:
    """Name and step of each model of an entry; one without a series has an empty step."""
    if not model.step:
        yield key, ""
    for step in model.step:
        yield f"{key}-{step}", str(step)


def folder_of(name: str, benchmark: str) -> str:
    """The folder of one benchmark of one model, and its name in records."""
    return f"{name}.{benchmark}"


def service_of(key: str, model: PolicyModel, config: SubmitConfig) -> str | None:
    """The service that answers as a model; ``None`` for a model at an address."""
    return model.service or (key if key in config.services else None)


def _share(config: SubmitConfig, key: str, name: str, step: str) -> ModelShare:
    model = config.driver.models[key]
    own = service_of(key, model, config)
    others = {service_of(other, entry, config) for other, entry in config.driver.models.items()}
    services = {
        service: _at_step(entry, model, step) if service == own else entry
        for service, entry in config.services.items()
        if service == own or service not in others
    }
    names = {folder_of(name, benchmark): benchmark for benchmark in config.driver.benchmarks}
    jobs = {folder: _for_model(config.driver.benchmarks[its], model, step) for folder, its in names.items()}
    driver = config.driver.model_copy(update={"models": {}, "policy_model": own, "benchmarks": jobs})
    return ModelShare(name, config.model_copy(update={"services": services, "driver": driver}), names)


def _at_step(service: ServiceConfig, model: PolicyModel, step: str) -> ServiceConfig:
    """The service as it serves one model of a series."""
    if isinstance(service, ModelService):
        named = service.served_model_name
        return service.model_copy(
            update={
                "model": at_step(model.model or service.model, step),
                "served_model_name": None if named is None else at_step(named, step),
            }
        )
    names = {"command": at_step(service.command, step), "model_name": at_step(service.model_name, step)}
    return service.model_copy(update=names)


def at_step(text: str, step: str) -> str:
    """A text with the step of a series in it; as it is where there is no series."""
    return text.replace(STEP, step) if step else text


def _for_model(job: BenchmarkJob, model: PolicyModel, step: str) -> BenchmarkJob:
    if job.command is not None:
        return job
    run: dict[str, Any] = composition.merge(job.run, model.run)
    for key in ADDRESS:
        if isinstance(run.get(key), str):
            run[key] = at_step(run[key], step)
    return job.model_copy(update={"run": run})
