"""The outputs of a path that a person gives: a run directory, a folder with results, or a file of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nemo_gym.errors import DataError
from nemo_gym.job_paths import JobPaths, RolloutPaths, RunPaths, default_output, outputs_in
from nemo_runs.suggestions import did_you_mean, suggestion

_MOST_NAMES = 30
"""Benchmarks that are listed at most."""


def outputs_at(path: Path) -> dict[str, RolloutPaths]:
    """The outputs at a path by name. Raises `DataError` where there is none."""
    if path.is_file():
        return {path.stem: RolloutPaths(path)}
    here = default_output(path)
    if here.output.is_file():
        return {path.absolute().name: here}
    if JobPaths(path).rollouts.output.is_file():
        return {path.absolute().name: JobPaths(path).rollouts}
    found = {
        folder.name: RunPaths(path).job(folder.name).rollouts
        for folder in (sorted(path.iterdir()) if path.is_dir() else [])
        if RunPaths(path).job(folder.name).rollouts.output.is_file()
    }
    found = found or {paths.output.stem: paths for paths in outputs_in(path) if paths.output.is_file()}
    if not found:
        raise DataError(
            f"{path}: no rollouts here; name a run directory, an artifacts folder or a rollouts.jsonl."
        )
    return found


def no_benchmark(run: str, benchmark: str, known: Sequence[str], also: Sequence[str] = ()) -> str:
    """What is said of a benchmark that a run has not; ``also`` are other names that may be given."""
    of_models = [name for name in known if name.endswith(f".{benchmark}")]
    meant = did_you_mean(*of_models) or suggestion(benchmark, [*known, *also])
    listed = f"{', '.join(known[:_MOST_NAMES])}{', …' if len(known) > _MOST_NAMES else ''}"
    return f"{run} has no benchmark '{benchmark}'" + (meant or f"; it has {listed or 'none'}")
