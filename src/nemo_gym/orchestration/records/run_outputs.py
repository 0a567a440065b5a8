"""The outputs of one run, whatever it is named by: an id of a submission, or a folder or file of results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym.errors import DataError, GymError
from nemo_gym.job_paths import RolloutPaths, RunPaths, index_entry
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import locations
from nemo_gym.rollouts.output.outputs_at import outputs_at

if TYPE_CHECKING:
    from nemo_gym.orchestration.records.remote_copy import RemoteCopy


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """A run and where its outputs are on this machine."""

    name: str
    """The id of the submission; of a run without one the path that was given."""
    record: SubmissionRecord | None
    """``None``: a run of `gym eval run`, which has no record."""
    outputs: Mapping[str, RolloutPaths]
    """By benchmark, in the order of the record; those that have begun."""
    folder: Path
    """The folder with everything."""


def local_outputs(name: str) -> Mapping[str, RolloutPaths] | None:
    """The outputs of a folder or file that `gym eval run` wrote; ``None`` where a submission is named.

    Raises `DataError` for a folder or file that holds no results.
    """
    path = Path(name)
    known = index_entry(name).is_file() if "/" not in name else False
    if known or not path.exists() or RunPaths(path).record.is_file():
        return None
    return outputs_at(path)


def run_outputs(name: str, benchmark: str | None, near: RemoteCopy) -> RunOutputs:
    """The outputs of a run, of one benchmark if it is named.

    ``name`` is what `gym job` takes (an id, a unique beginning, ``latest``, a run directory), or a folder or
    file that `gym eval run` wrote. Raises `GymError` when nothing is found, or nothing has begun.
    """
    path = Path(name)
    found = local_outputs(name)
    if found is not None:
        if benchmark is not None and benchmark not in found:
            raise GymError(f"{name} has no benchmark '{benchmark}'; it has {', '.join(found)}.")
        chosen = {key: paths for key, paths in found.items() if benchmark in (None, key)}
        return RunOutputs(str(path), None, chosen, path if path.is_dir() else path.parent)
    location = near.find(name)
    entries = locations.chosen(location.record, benchmark)
    outputs = {entry.benchmark: location.job(entry.benchmark).rollouts for entry in entries}
    begun = {key: paths for key, paths in outputs.items() if paths.manifest.is_file()}
    if not begun:
        raise DataError(f"{location.record.gym_job_id}: nothing is recorded yet in {location.run_dir}.")
    return RunOutputs(location.record.gym_job_id, location.record, begun, location.run_dir)
