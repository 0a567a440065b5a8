"""Several clusters in one submit file: each model, or each benchmark, says where it runs. Pure.

The file is taken apart into one config for each cluster, which is what a submission to that cluster alone
would be: a record is about one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.schema import BenchmarkJob, PolicyModel, SubmitConfig
from nemo_runs.suggestions import suggestion

Entry = TypeVar("Entry", PolicyModel, BenchmarkJob)
CAMPAIGN = "campaign"
"""The label that the submissions of one file have in common."""


def split(config: SubmitConfig) -> list[SubmitConfig]:
    """One config for each cluster that is used, in the order of the file.

    Raises `ConfigError` when it is not said of every model, or of every benchmark, where it runs.
    """
    for problem in _problems(config):
        raise ConfigError(f"{problem}.")
    if len(config.compute) < 2:
        only = next(iter(config.compute), None)
        return [config if only is None else _part(config, only)]
    return [_part(config, cluster) for cluster in config.compute if cluster in set(_named(config).values())]


def _problems(config: SubmitConfig) -> Iterator[str]:
    models, benchmarks = config.driver.models, config.driver.benchmarks
    for path, cluster in _said(config):
        if cluster not in config.compute:
            known = ", ".join(config.compute) or "none"
            hint = suggestion(cluster, config.compute) or f"; there is {known}"
            yield f"{path}.compute: '{cluster}' is not a compute entry{hint}"
    if len(config.compute) < 2:
        return
    by_model = [name for name, model in models.items() if model.compute is not None]
    by_benchmark = [name for name, job in benchmarks.items() if job.compute is not None]
    if by_model and by_benchmark:
        yield (
            f"driver.models.{by_model[0]}.compute and driver.benchmarks.{by_benchmark[0]}.compute: either "
            "models or benchmarks say where they run; leave out one of the two"
        )
    kind, entries = ("models", models) if by_model else ("benchmarks", benchmarks)
    for name, entry in entries.items():
        if entry.compute is None:
            yield (
                f"driver.{kind}.{name}.compute: there are {', '.join(config.compute)}, and nothing says on "
                "which it runs; set it"
            )


def _said(config: SubmitConfig) -> Iterator[tuple[str, str]]:
    for name, model in config.driver.models.items():
        if model.compute is not None:
            yield f"driver.models.{name}", model.compute
    for name, job in config.driver.benchmarks.items():
        if job.compute is not None:
            yield f"driver.benchmarks.{name}", job.compute


def _named(config: SubmitConfig) -> dict[str, str]:
    return dict(_said(config))


def _part(config: SubmitConfig, cluster: str) -> SubmitConfig:
    """What runs on one cluster."""
    entry = config.compute[cluster]
    driver = config.driver.model_copy(
        update={
            "models": _there(config.driver.models, cluster),
            "benchmarks": _there(config.driver.benchmarks, cluster),
        }
    )
    changes: dict[str, Any] = {
        "driver": driver,
        "compute": {cluster: entry.model_copy(update={"output_path": None})},
    }
    if entry.output_path is not None:
        changes["job"] = config.job.model_copy(update={"output_path": entry.output_path})
    if config.driver.models:
        kept = {model.service or name for name, model in driver.models.items()}
        gone = {model.service or name for name, model in config.driver.models.items()} - kept
        changes["services"] = {n: service for n, service in config.services.items() if n not in gone}
    return config.model_copy(update=changes)


def _there(entries: Mapping[str, Entry], cluster: str) -> dict[str, Entry]:
    return {
        name: entry.model_copy(update={"compute": None})
        for name, entry in entries.items()
        if entry.compute in (None, cluster)
    }
