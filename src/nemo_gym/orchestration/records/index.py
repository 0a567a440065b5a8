"""Where records are written, in which order, and how they are found again.

The local index comes first because it cannot fail the submit: a failure is reported and passed over. Then
come the resolved config and the record in the run directory; by then the jobs are queued, so a failure there
is an error that names every queued job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from nemo_gym import job_paths
from nemo_gym.errors import DataError, GymError, SubmitError
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_runs.durable.files import create_file, read_document, replace_file
from nemo_runs.errors import RunsError
from nemo_runs.suggestions import suggestion
from nemo_slurm.errors import SlurmError

SHARED = 0o644
"""Mode of everything that is safe to share; secrets are never in these files."""

Reporter = Callable[[str], None]
"""Takes one sentence for stderr."""


Write = Callable[[Path, bytes, int], None]
"""Writes a file of a run directory: path, content, mode."""


def create(path: Path, data: bytes, mode: int) -> None:
    """Write a file of this machine."""
    create_file(path, data, mode=mode)


def write_records(
    record: SubmissionRecord, resolved_config: str, *, report: Reporter, write: Write = create
) -> None:
    """Write all three locations; `SubmitError` names every queued job when the run directory fails.

    ``write`` reaches the run directory, which may be on another machine; the local index never is.
    """
    _write_index(record, report)
    paths = job_paths.RunPaths(Path(record.run_dir))
    failures = [
        failure
        for path, data in (
            (paths.resolved_config, resolved_config.encode()),
            (paths.record, record.dumps()),
        )
        if (failure := _write(write, path, data)) is not None
    ]
    if failures:
        raise SubmitError(_not_recorded(record, failures))


def _write(write: Write, path: Path, data: bytes) -> str | None:
    try:
        write(path, data, SHARED)
    except (OSError, RunsError, SlurmError) as error:
        return f"{path} ({getattr(error, 'strerror', None) or error})"
    return None


def _not_recorded(record: SubmissionRecord, failures: list[str]) -> str:
    queued = [f"{entry.benchmark}={entry.job_id}" for entry in record.benchmarks if entry.job_id is not None]
    jobs = ", ".join(queued) if queued else "none"
    return f"could not write {' and '.join(failures)}; these jobs are queued, note them down: {jobs}."


def _write_index(record: SubmissionRecord, report: Reporter) -> None:
    folder = job_paths.job_index()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        create_file(job_paths.index_entry(record.gym_job_id), record.dumps(), mode=SHARED)
    except (OSError, RunsError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        what = f"the local index {folder} could not be written ({reason})"
        report(f"{what}; the submission is not affected. XDG_CACHE_HOME moves it.")


def indexed(*, report: Reporter) -> Iterator[SubmissionRecord]:
    """Every readable record of the local index, newest first; an unreadable one is reported and skipped."""
    folder = job_paths.job_index()
    try:
        names = sorted((name for name in os.listdir(folder) if _is_record(name)), reverse=True)
    except FileNotFoundError:
        return
    except OSError as error:
        report(f"the local index {folder} cannot be read ({error.strerror}); nothing in it is seen.")
        return
    for name in names:
        try:
            yield read_record(folder / name)
        except (GymError, OSError) as error:
            report(f"passed over {folder / name}: {error}")


def _is_record(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def read_record(path: Path) -> SubmissionRecord:
    """Read one record file. Raises `DataError` naming the file when it cannot be read as a record."""
    try:
        return SubmissionRecord.load(json.loads(read_document(path)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a JSON document ({error}).") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def newest(*, limit: int | None, labels: Mapping[str, str], report: Reporter) -> list[SubmissionRecord]:
    """The newest records of the local index that carry all ``labels``, at most ``limit``."""
    found: list[SubmissionRecord] = []
    for record in indexed(report=report):
        if limit is not None and len(found) >= limit:
            break
        if all(record.labels.get(key) == value for key, value in labels.items()):
            found.append(record)
    return found


def find(name: str, *, report: Reporter) -> SubmissionRecord:
    """The record of a full id, a unique prefix of one, ``latest``, or a run directory.

    A full id that is known is never a folder of that name, which may be a fetched copy. Of a run directory
    that was moved, the record names the folder in which it is now; of a copy, the original, to which the
    jobs belong.
    """
    if _is_known(name):
        return read_record(job_paths.index_entry(name))
    paths = job_paths.RunPaths(Path(name))
    if paths.record.is_file():
        record = read_record(paths.record)
        return record if _is_copy(record, paths) else moved(record, Path(name))
    if name == "latest":
        return _latest(report)
    ids = _ids_with_prefix(name)
    if len(ids) == 1:
        return read_record(job_paths.index_entry(ids[0]))
    if ids:
        shown = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
        raise GymError(f"'{name}' begins the ids of {len(ids)} submissions ({shown}): give more of it.")
    if Path(name).exists():
        raise GymError(
            f"{name} was not made by a submission, so there is no job to look at or to act on; `gym job "
            "results`, `show`, `verify`, `export` and `share` and `gym eval compare` read such folders."
        )
    meant = suggestion(name, _beside(Path(name)) if "/" in name else ["latest", *_ids_with_prefix("")])
    there = meant or f" in {job_paths.job_index()}; `gym job list` shows what is there"
    raise GymError(f"no submission '{name}'{there}.")


def is_folder(name: str) -> bool:
    """Whether a name means a run directory, or a copy of one, and not an id."""
    return not _is_known(name) and job_paths.RunPaths(Path(name)).record.is_file()


def _is_known(name: str) -> bool:
    return "/" not in name and not name.startswith(".") and job_paths.index_entry(name).is_file()


def _is_copy(record: SubmissionRecord, paths: job_paths.RunPaths) -> bool:
    """Whether a folder with this record was fetched, or its original is still on this machine."""
    if paths.fetched.exists():
        return True
    return record.hostname is None and job_paths.RunPaths(Path(record.run_dir)).record.is_file()


def moved(record: SubmissionRecord, run_dir: Path) -> SubmissionRecord:
    """The record of a run directory that lies in ``run_dir`` now."""
    if run_dir.resolve() == Path(record.run_dir).resolve():
        return record
    paths = job_paths.RunPaths(run_dir.absolute())
    entries = tuple(
        replace(entry, job_dir=str(paths.job(entry.benchmark).job_dir)) for entry in record.benchmarks
    )
    return replace(record, run_dir=str(paths.run_dir), benchmarks=entries)


def note_fetched(gym_job_id: str, folder: Path, *, report: Reporter) -> None:
    """Keep in the local index where a copy of a submission is; a failure is reported and passed over."""
    known = [str(path) for path in fetched_copies(gym_job_id)]
    here = str(folder.absolute())
    if here in known or "\n" in here:
        return
    note = job_paths.fetched_note(gym_job_id)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        replace_file(note, "".join(f"{path}\n" for path in [*known, here]).encode(), mode=SHARED)
    except (OSError, RunsError) as error:
        report(f"{note} could not be written ({getattr(error, 'strerror', None) or error}).")


def fetched_copies(gym_job_id: str) -> list[Path]:
    """The folders into which a submission was fetched and in which a copy still is."""
    try:
        lines = job_paths.fetched_note(gym_job_id).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [Path(line) for line in lines if job_paths.RunPaths(Path(line)).record.is_file()]


def _beside(path: Path) -> list[str]:
    """What is in the folder of a path, named as the path is."""
    return [str(path.parent / each.name) for each in path.parent.iterdir()] if path.parent.is_dir() else []


def _latest(report: Reporter) -> SubmissionRecord:
    for record in indexed(report=report):
        return record
    raise GymError(f"there is no submission in {job_paths.job_index()} yet.")


def _ids_with_prefix(prefix: str) -> list[str]:
    """Ids that begin with the text, with or without the leading ``gym-job-``."""
    try:
        names = [name.removesuffix(".json") for name in os.listdir(job_paths.job_index()) if _is_record(name)]
    except OSError:
        return []
    return sorted(name for name in names if name.startswith((prefix, f"gym-job-{prefix}")))
