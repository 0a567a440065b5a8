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
from nemo_gym.orchestration.records.index import Reporter
from nemo_gym.orchestration.records.run_search import found_below
from nemo_gym.rollouts.output.outputs_at import no_benchmark, outputs_at

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

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the submission."""
        return self.record.labels if self.record is not None else {}

    @property
    def models(self) -> Mapping[str, str | None]:
        """Of a campaign, the model of each benchmark."""
        return {entry.benchmark: entry.model for entry in self.record.benchmarks} if self.record else {}


def run_without_record(name: str, benchmark: str | None = None) -> RunOutputs | None:
    """The run of a folder or file that `gym eval run` wrote; ``None`` where a submission is named.

    Raises `DataError` for a folder or file that holds no results, `GymError` for an unknown benchmark.
    """
    if not _is_without_record(name):
        return None
    path = Path(name)
    found = outputs_at(path)
    if benchmark is not None and benchmark not in found:
        raise GymError(f"{no_benchmark(name, benchmark, list(found))}.")
    chosen = {key: paths for key, paths in found.items() if benchmark in (None, key)}
    return RunOutputs(str(path), None, chosen, path if path.is_dir() else path.parent)


def _is_without_record(name: str) -> bool:
    path = Path(name)
    known = index_entry(name).is_file() if "/" not in name else False
    return not known and path.exists() and not RunPaths(path).record.is_file()


def runs_named(name: str, *, report: Reporter) -> list[SubmissionRecord | RunOutputs]:
    """The submission or run of a name; of a folder that is neither, all runs below it.

    Only what is on this machine is looked at. Raises `GymError` when nothing is found.
    """
    if not _is_without_record(name):
        return [locations.readable(name, report=report)]

    def at(path: Path) -> SubmissionRecord | RunOutputs | None:
        try:
            if RunPaths(path).record.is_file():
                return locations.readable(str(path), report=report)
            return run_without_record(str(path))
        except DataError:
            return None  # a folder of another kind

    found: list[SubmissionRecord | RunOutputs] = list(found_below(Path(name), at, report=report))
    if not found:
        raise DataError(
            f"{name}: no rollouts here; name a run directory, a folder with such, an artifacts folder or a "
            "rollouts.jsonl."
        )
    return found


def run_outputs(name: str, benchmark: str | None, near: RemoteCopy) -> RunOutputs:
    """The outputs of a run, of one benchmark if it is named.

    ``name`` is what `gym job` takes (an id, a unique beginning, ``latest``, a run directory), or a folder or
    file that `gym eval run` wrote. Raises `GymError` when nothing is found, or nothing has begun.
    """
    found = run_without_record(name, benchmark)
    if found is not None:
        return found
    location = near.find(name)
    entries = locations.chosen(location.record, benchmark)
    outputs = {entry.benchmark: location.job(entry.benchmark).rollouts for entry in entries}
    begun = {key: paths for key, paths in outputs.items() if paths.manifest.is_file()}
    if not begun:
        raise DataError(f"{location.record.gym_job_id}: nothing is recorded yet in {location.run_dir}.")
    return RunOutputs(location.record.gym_job_id, location.record, begun, location.run_dir)
