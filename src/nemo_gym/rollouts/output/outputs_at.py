"""The outputs of a path that a person gives: a run directory, a folder with results, or a file of rows."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.errors import DataError
from nemo_gym.job_paths import JobPaths, RolloutPaths, RunPaths, default_output, outputs_in


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
