"""What a shell may complete in `gym`: names of submissions, their benchmarks, benchmarks, labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_cli.completion import completes

if TYPE_CHECKING:
    from nemo_gym.orchestration.jobs import SubmissionRecord

_MOST = 200
"""Submissions that are offered, newest first."""


def _records() -> Iterable[SubmissionRecord]:
    from nemo_gym.orchestration.records import index

    return itertools.islice(index.indexed(report=lambda _sentence: None), _MOST)


def _ids(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    typed = ctx.params.get("ids") or ()
    yield "latest", "the newest submission"
    for record in _records():
        if record.gym_job_id not in typed:
            labels = " ".join(f"{key}={value}" for key, value in record.labels.items())
            names = ",".join(entry.benchmark for entry in record.benchmarks)
            yield record.gym_job_id, f"{names} on {record.cluster} {labels}".rstrip()
            if not incomplete.startswith("gym-job-") and incomplete:
                yield record.gym_job_id.removeprefix("gym-job-"), names


def _entries(ctx: click.Context) -> list[tuple[str, str | None]]:
    """Benchmarks of the run that is named, each with its model in a campaign."""
    from nemo_gym.orchestration.records import index
    from nemo_gym.orchestration.records.run_outputs import run_without_record

    name = str(ctx.params.get("name"))
    run = run_without_record(name)
    if run is not None:
        return [(benchmark, None) for benchmark in run.outputs]
    record = index.find(name, report=lambda _sentence: None)
    return [(entry.benchmark, entry.model) for entry in record.benchmarks]


def _benchmarks_of_run(ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    return [(benchmark, "") for benchmark, _ in _entries(ctx)]


def _benchmarks_or_models_of_run(ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    models = dict.fromkeys(model for _, model in _entries(ctx) if model is not None)
    return [*((model, "all of this model") for model in models), *_benchmarks_of_run(ctx, incomplete)]


def _benchmarks(ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    from nemo_gym.rollouts.run_config.catalog import benchmark_files

    folders = [Path(folder) for folder in ctx.params.get("search_dirs") or ()]
    return [(name, "") for name in sorted(benchmark_files(folders, Path.cwd()))]


def _labels(_ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    found = (f"{key}={value}" for record in _records() for key, value in record.labels.items())
    return [(label, "") for label in sorted(set(found))]


def _verifiers(_ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    from nemo_gym.verifiers.registry import verifier_types

    return [(name, "") for name in verifier_types()]


def _models_to_serve(_ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    from nemo_gym.serving.models import packaged_names

    return [(name, "") for name in packaged_names()]


run_ids = completes(_ids, paths=True)
benchmarks_of_run = completes(_benchmarks_of_run)
benchmarks_or_models_of_run = completes(_benchmarks_or_models_of_run)
benchmark_names = completes(_benchmarks, paths=True)
verifier_names = completes(_verifiers)
models_to_serve = completes(_models_to_serve, paths=True)
label_values = completes(_labels)
