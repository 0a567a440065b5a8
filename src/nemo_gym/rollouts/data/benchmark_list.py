"""Every benchmark that can be run by name, with whether its data is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_gym import errors
from nemo_gym.rollouts.data.prepare import data_path
from nemo_gym.rollouts.run_config.catalog import benchmark_files
from nemo_gym.rollouts.run_config.dataset_schema import DataSource
from nemo_gym.rollouts.run_config.schema import load_run_config


@dataclass(frozen=True, slots=True)
class ListedBenchmark:
    """One benchmark that `--benchmark NAME` finds."""

    name: str
    description: str
    path: Path
    """Its config file."""
    num_repeats: int
    prepared: bool
    """Whether its data, with the default arguments of its prepare script, is there."""
    source: DataSource | None = None
    """Where the data is from; ``None`` where the config does not say."""
    unpublished: str | None = None
    """Why its questions and answers must not be published."""
    error: str | None = None
    """Why the config cannot be used; the other fields are then only what could be had."""


def list_benchmarks(search_dirs: Sequence[Path] = (), *, cwd: Path | None = None) -> list[ListedBenchmark]:
    """Every benchmark that can be found, sorted by name; one that is broken does not hide the others."""
    here = cwd if cwd is not None else Path.cwd()
    return [
        _entry(name, path, search_dirs, here)
        for name, path in sorted(benchmark_files(search_dirs, here).items())
    ]


def _entry(name: str, path: Path, search_dirs: Sequence[Path], cwd: Path) -> ListedBenchmark:
    try:
        config = load_run_config(
            [str(path)], None, [], search_dirs=search_dirs, cwd=cwd, user_env=False
        ).config
        prepared = config.benchmark.command is not None or data_path(config).is_file()
    except errors.GymError as error:
        return ListedBenchmark(name, "", path, 1, prepared=False, error=str(error))
    benchmark = config.benchmark
    return ListedBenchmark(
        name,
        benchmark.description,
        path,
        benchmark.num_repeats,
        prepared,
        source=benchmark.source,
        unpublished=benchmark.unpublished,
    )
