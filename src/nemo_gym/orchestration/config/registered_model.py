"""Putting one model, whose files are here, into a submit file: as the service that answers all benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_gym.errors import UsageError
from nemo_gym.serving.registered import RegisteredModel

_NAME = "model"
"""Of the service, where the file has none that answers as the policy model."""


def with_model(config: Mapping[str, Any], model: RegisteredModel) -> dict[str, Any]:
    """The config, still plain, with this model as its policy model, and its digest in every run.

    Raises `UsageError` where the file says something else about the model, or its jobs run elsewhere.
    """
    if problem := next(_problems(config, model), None):
        raise UsageError(f"--model {model.name}: {problem}.")
    driver = _mapping(config.get("driver"))
    services = _mapping(config.get("services"))
    policy = str(driver.get("policy_model") or _NAME)
    services[policy] = _service(_mapping(services.get(policy)), model)
    benchmarks = {name: _digested(job, model) for name, job in _mapping(driver.get("benchmarks")).items()}
    driver = {**driver, "policy_model": policy, "benchmarks": benchmarks}
    return {**config, "services": services, "driver": driver}


def _problems(config: Mapping[str, Any], model: RegisteredModel) -> Iterator[str]:
    driver, services = _mapping(config.get("driver")), _mapping(config.get("services"))
    if driver.get("models"):
        yield "driver.models names several models, which this one cannot stand for; leave it out"
    for name, entry in _mapping(config.get("compute")).items():
        if _mapping(entry).get("hostname"):
            yield (
                f"compute.{name} is another machine, where the files of the model are not; copy them there "
                "(`nemo models export` makes a folder of its own), and name that folder in a service"
            )
    policy = driver.get("policy_model")
    service = _mapping(services.get(policy)) if policy else {}
    if service.get("container"):
        yield f"services.{policy}.container: the model's files are outside; leave the container out"
    if service.get("type") in ("vllm", "sglang") and model.adapter:
        yield (
            f"services.{policy} is of the type {service['type']}, which wants whole weights: `nemo models "
            f"export {model.name} --to merged -o FOLDER`, and give --model FOLDER"
        )


def _service(given: Mapping[str, Any], model: RegisteredModel) -> dict[str, Any]:
    """The service with this model in place of its own."""
    if given.get("type") in ("vllm", "sglang"):
        return {**given, "model": str(model.folder), "served_model_name": model.name}
    return {**given, "type": "command", "command": model.command, "model_name": model.name}


def _digested(job: Any, model: RegisteredModel) -> Any:
    if not isinstance(job, Mapping) or job.get("command") is not None:
        return job
    return {**job, "run": {**_mapping(job.get("run")), "policy_model_digest": model.digest}}


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
