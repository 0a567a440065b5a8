"""Rules of the models of a campaign, each a sentence with the dotted path and the remedy; all pure."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_gym.orchestration.config import campaign
from nemo_gym.orchestration.config.schema import CommandService, PolicyModel, SubmitConfig
from nemo_gym.orchestration.config.values import checked_name
from nemo_runs.suggestions import suggestion


def problems(config: SubmitConfig) -> Iterator[str]:
    """What is wrong, each a sentence without its full stop."""
    if not config.driver.models:
        return
    if config.driver.policy_model is not None:
        yield (
            "driver.models: driver.policy_model names one model and driver.models several; leave out one of "
            "the two"
        )
    for key, model in config.driver.models.items():
        yield from _who_answers(f"driver.models.{key}", key, model, config)
        yield from _series(f"driver.models.{key}", key, model, config)
    yield from _benchmarks(config)
    yield from _names(config)


def _who_answers(path: str, key: str, model: PolicyModel, config: SubmitConfig) -> Iterator[str]:
    service = campaign.service_of(key, model, config)
    address = [name for name in campaign.ADDRESS if name in model.run]
    if service is None and not address:
        known = ", ".join(config.services) or "none"
        yield (
            f"{path}: nothing says who answers; set {path}.service (there is {known}) or "
            f"{path}.run.policy_base_url and policy_model_name"
        )
    elif service is not None and service not in config.services:
        known = ", ".join(config.services) or "none"
        hint = suggestion(service, config.services) or f"; there is {known}"
        yield f"{path}.service: '{service}' is not a service{hint}"
    elif service is not None and address:
        yield f"{path}.run: {', '.join(address)} would be overruled by service {service}; leave out one"
    if "policy_service_name" in model.run:
        yield f"{path}.run.policy_service_name: {path}.service names the service; leave it out"
    if "output_jsonl_fpath" in model.run:
        yield f"{path}.run.output_jsonl_fpath: submit puts results into the run directory; leave it out"
    if model.model is not None and isinstance(config.services.get(service or ""), CommandService):
        yield f"{path}.model: a command says itself what it serves; write {campaign.STEP} into its command"
    elif model.model is not None and service is None:
        yield f"{path}.model: there is no service that could serve it; set {path}.run.policy_model_name"


def _series(path: str, key: str, model: PolicyModel, config: SubmitConfig) -> Iterator[str]:
    steps = [str(step) for step in model.step]
    for step in steps:
        if steps.count(step) > 1:
            yield f"{path}.step: {step} is there twice; leave one out"
            return
    texts = [model.model, *(model.run.get(name) for name in campaign.ADDRESS)]
    service = config.services.get(campaign.service_of(key, model, config) or "")
    if isinstance(service, CommandService):
        texts += [service.command, service.model_name]
    elif service is not None and model.model is None:
        texts.append(service.model)
    named = any(isinstance(text, str) and campaign.STEP in text for text in texts)
    if steps and not named:
        yield (
            f"{path}.step: {campaign.STEP} is neither in {path}.model nor in what is served, so that all of "
            f"the series would be the same; write it there"
        )
    if model.model is not None and campaign.STEP in model.model and not steps:
        yield f"{path}.model: {campaign.STEP} is for the steps of a series; set {path}.step"


def _benchmarks(config: SubmitConfig) -> Iterator[str]:
    for name, job in config.driver.benchmarks.items():
        given = [key for key in campaign.ADDRESS if key in job.run]
        if given:
            yield (
                f"driver.benchmarks.{name}.run: {', '.join(given)} would be overruled by driver.models; "
                "leave out one or the other"
            )


def _names(config: SubmitConfig) -> Iterator[str]:
    """Models and their benchmarks are folders beside each other."""
    owners: dict[str, str] = {}
    for key, model in config.driver.models.items():
        for name, _ in campaign.series(key, model):
            its = [(name, f"driver.models.{key}")]
            its += [
                (
                    campaign.folder_of(name, benchmark),
                    f"driver.models.{key} with driver.benchmarks.{benchmark}",
                )
                for benchmark in config.driver.benchmarks
            ]
            for folder, owner in its:
                try:
                    checked_name(folder)
                except ValueError as error:
                    yield f"{owner}: {error}"
                if folder in owners:
                    yield f"{owner}: its folder {folder} is that of {owners[folder]} too; rename one of them"
                owners[folder] = owner
