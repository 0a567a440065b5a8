"""Runs that benchmarks of a submission are compared with, found before anything is queued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.records.reference_run import reference_rows


def with_references(runs: Mapping[str, BenchmarkRun]) -> dict[str, BenchmarkRun]:
    """The runs with the rows of each reference run in place of its id or folder.

    Raises `nemo_gym.errors.ConfigError` with the dotted path.
    """
    return {name: _with_reference(name, run) for name, run in runs.items()}


def _with_reference(name: str, run: BenchmarkRun) -> BenchmarkRun:
    until = (run.run or {}).get("until") or {}
    if run.run is None or until.get("better_than") is None:
        return run
    where = f"driver.benchmarks.{name}.run.until.better_than"
    rows = reference_rows(until["better_than"], run.run["benchmark"]["name"], where=where)
    return replace(run, run={**run.run, "until": {**until, "better_than": rows}})
