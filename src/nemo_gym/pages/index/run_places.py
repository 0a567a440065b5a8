"""Which runs there are: those of the record index, and those in folders that a person names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from nemo_gym.errors import DataError, GymError
from nemo_gym.job_paths import RolloutPaths, RunPaths, job_index
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import index, locations
from nemo_gym.orchestration.records.index import Reporter
from nemo_gym.orchestration.records.run_search import found_below
from nemo_gym.rollouts.output.outputs_at import outputs_at

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRun:
    """A run and where its files are."""

    run_id: str
    """The id of the submission; of a run without one made of its folder's path."""
    title: str
    """What a person calls it: the id, or the path."""
    record: SubmissionRecord | None = None
    """With the folder in which its files are here, if they are. ``None``: a run of `gym eval run`."""
    folder: Path | None = None
    """``None``: its files are on another machine."""
    copy: bool = False
    """Whether the files are a copy that was fetched."""
    outputs: Mapping[str, RolloutPaths] = field(default_factory=dict)
    """By benchmark, of what was recorded here so far."""
    root: Path | None = None
    """The named folder in which it was found; ``None``: in the record index."""


class RunPlaces:
    """Looks for runs again and again; what has not changed is not read again."""

    def __init__(self, folders: Sequence[Path], *, records: bool) -> None:
        """``records``: whether those of the record index are looked at too."""
        self._folders = [folder.absolute() for folder in folders]
        self._records = records
        self._indexed: tuple[int, list[SubmissionRecord]] = (-1, [])

    def find(self, *, report: Reporter) -> list[PlacedRun]:
        """All runs, newest first; each once, in the named folder rather than where its record says."""
        found: dict[str, PlacedRun] = {}
        for folder in self._folders:
            for place in _below(folder, report):
                found.setdefault(place.run_id, replace(place, root=folder))
        for record in self._of_index(report) if self._records else ():
            found.setdefault(record.gym_job_id, _of_record(record))
        return sorted(found.values(), key=_newest_first, reverse=True)

    def _of_index(self, report: Reporter) -> list[SubmissionRecord]:
        """The records; read again when one was added or removed, for none is ever changed."""
        try:
            changed = job_index().stat().st_mtime_ns
        except OSError:
            return []
        if self._indexed[0] != changed:
            self._indexed = changed, list(index.indexed(report=report))
        return self._indexed[1]


def run_id_of(folder: Path) -> str:
    """The id of a run that has no record: its folder's name, and a part of a digest of its path."""
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:10]
    name = _UNSAFE.sub("-", folder.stem if folder.suffix == ".jsonl" else folder.name).strip("-.")
    return f"{name[:60] or 'run'}-{digest}"


def _newest_first(place: PlacedRun) -> tuple[str, str]:
    if place.record is not None:
        return place.record.submitted_at, place.run_id
    return _made_at(place), place.run_id


def _made_at(place: PlacedRun) -> str:
    """When an output was made, by its manifest; by the age of its files where it has none."""
    from nemo_runs.clock import utc_text

    times = []
    for paths in place.outputs.values():
        for path in (paths.manifest, paths.output):
            if path.is_file():
                times.append(path.stat().st_mtime)
                break
    return utc_text(max(times, default=0.0))


def _of_record(record: SubmissionRecord) -> PlacedRun:
    run_dir = Path(record.run_dir)
    if RunPaths(run_dir).record.is_file() or (record.hostname is None and run_dir.is_dir()):
        return _placed(record, run_dir, copy=False)
    copies = index.fetched_copies(record.gym_job_id)
    if copies:
        return _placed(record, copies[-1], copy=True)
    return PlacedRun(run_id=record.gym_job_id, title=record.gym_job_id, record=record)


def _placed(record: SubmissionRecord, folder: Path, *, copy: bool) -> PlacedRun:
    record = index.moved(record, folder)
    outputs = {entry.benchmark: RunPaths(folder).job(entry.benchmark).rollouts for entry in record.benchmarks}
    begun = {name: paths for name, paths in outputs.items() if paths.materialized_inputs.is_file()}
    return PlacedRun(
        run_id=record.gym_job_id,
        title=record.gym_job_id,
        record=record,
        folder=folder,
        copy=copy,
        outputs=begun,
    )


def _below(folder: Path, report: Reporter) -> Iterator[PlacedRun]:
    return found_below(folder, lambda each: _at(each, report, named=each == folder), report=report)


def _at(folder: Path, report: Reporter, *, named: bool) -> PlacedRun | None:
    """The run that a folder or file is."""
    if RunPaths(folder).record.is_file():
        try:
            found = locations.find_location(str(folder), report=report)
        except (GymError, OSError) as error:
            report(f"{folder} is shown as results without jobs: {error}")
        else:
            return _placed(found.record, folder, copy=RunPaths(folder).fetched.exists())
    try:
        outputs = outputs_at(folder)
    except DataError as error:
        if named and not folder.exists():
            report(str(error))
        return None
    except OSError as error:
        report(f"passed over {folder}: {error.strerror}.")
        return None
    return PlacedRun(run_id=run_id_of(folder), title=str(folder), folder=folder, outputs=outputs)
