"""Where a submission's files are on this machine: its run directory, or a folder they were fetched to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, RunPaths, index_entry
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import index
from nemo_gym.orchestration.records.index import Reporter
from nemo_gym.rollouts.output.outputs_at import no_benchmark


@dataclass(frozen=True, slots=True)
class SubmissionLocation:
    """A submission and the folder in which its files are here."""

    record: SubmissionRecord
    run_dir: Path
    source: str = ""
    """``host:folder`` that it was brought from for one command; empty for files that stay."""

    @property
    def paths(self) -> RunPaths:
        """The files of the submission."""
        return RunPaths(self.run_dir)

    def job(self, benchmark: str) -> JobPaths:
        """The files of one benchmark."""
        return self.paths.job(benchmark)


def find_location(
    name: str, *, report: Reporter, location: Callable[[SubmissionRecord], SubmissionLocation] | None = None
) -> SubmissionLocation:
    """Where the submission of an id, a prefix, ``latest`` or a folder is here.

    A folder is believed before its record: a copied or moved run directory still names where it was made. An
    id whose files are on another machine may be the name of a folder that they were fetched to.
    ``location`` finds what an id means, `location_of` unless given. Raises `GymError` when the files are on
    another machine or gone.
    """
    record = index.find(name, report=report)
    folder = _folder(name, record)
    return (location or location_of)(record) if folder is None else SubmissionLocation(record, folder)


def readable(name: str, *, report: Reporter) -> SubmissionRecord:
    """The record of a submission whose results are to be read, naming the folder in which they are here."""
    record = index.find(name, report=report)
    folder = _folder(name, record)
    return record if folder is None else index.moved(record, folder)


def _folder(name: str, record: SubmissionRecord) -> Path | None:
    """The folder that a name is, unless it is the id of a submission whose own folder is here."""
    folder = Path(name)
    if name == record.gym_job_id and index_entry(name).exists() and Path(record.run_dir).is_dir():
        return None
    return folder.absolute() if RunPaths(folder).record.is_file() else None


def location_of(record: SubmissionRecord) -> SubmissionLocation:
    """Where a submission's run directory is here; raises `GymError` when it is not."""
    run_dir = Path(record.run_dir)
    if run_dir.is_dir():
        return SubmissionLocation(record, run_dir)
    if record.hostname is not None:
        raise GymError(f"{run_dir} is on {record.hostname}, not on this machine.")
    raise GymError(f"there is no folder {run_dir} any more; if it was moved, `gym job adopt` its new place.")


def chosen(record: SubmissionRecord, name: str | None) -> list[BenchmarkEntry]:
    """All benchmarks of a submission, the one of that name, or all of a campaign's model of that name.

    Raises `GymError` when there is none such.
    """
    models = {entry.model: None for entry in record.benchmarks if entry.model is not None}
    entries = [entry for entry in record.benchmarks if name in (None, entry.benchmark)]
    entries = entries or [entry for entry in record.benchmarks if entry.model == name]
    if not entries:
        names = [entry.benchmark for entry in record.benchmarks]
        found = no_benchmark(record.gym_job_id, name or "", names, list(models))
        of_models = f"; its models are {', '.join(models)}" if models and "did you" not in found else ""
        raise GymError(f"{found}{of_models}.")
    return entries
