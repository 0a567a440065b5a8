"""Know run directories again: the index from their records, and a lost record from what a directory holds.

A record that is there is believed and never changed. One that is damaged, or written by a newer Gym, is
reported and left alone. A directory without a record gets one made from its resolved config and its journals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from nemo_gym import job_paths
from nemo_gym.errors import DataError, GymError
from nemo_gym.events import ChainEvent
from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import index
from nemo_gym.orchestration.records.index import SHARED, Reporter
from nemo_runs.durable.files import create_file, replace_file
from nemo_runs.durable.journal import read_journal
from nemo_runs.errors import RunsError

SCHEMA_VERSION: Final = 1
ADOPTED: Final = "adopted_at"
"""The key of ``executor_metadata`` that says when a lost record was made again."""

_ID: Final = re.compile(r"gym-job-(\d{8}T\d{6}Z)-[0-9a-f]{6}")

What = Literal["known", "indexed", "moved", "made"]


@dataclass(frozen=True, slots=True)
class AdoptedRun:
    """What became of one run directory."""

    run_dir: Path
    gym_job_id: str
    what: What
    """``known`` already; ``indexed`` from its record; ``moved``: the index named another folder that is gone;
    ``made``: its record was lost."""

    def to_json(self) -> dict[str, str]:
        """The row as JSON values."""
        return {"gym_job_id": self.gym_job_id, "what": self.what, "run_dir": str(self.run_dir)}


def run_dirs(output_path: Path) -> Iterator[Path]:
    """The run directories in a folder, by name or by their record, oldest first.

    Raises `GymError` when there is no such folder.
    """
    if not output_path.is_dir():
        raise GymError(f"{output_path} is not a folder; give the output_path of the submissions.")
    for folder in sorted(output_path.iterdir()):
        if folder.is_dir() and (_ID.fullmatch(folder.name) or RunPaths(folder).record.exists()):
            yield folder


def adopt(run_dir: Path, *, now: datetime, report: Reporter) -> AdoptedRun:
    """Put one run directory into the local index; make its record again when it has none.

    Raises `DataError` for a record that is damaged or of a newer Gym, and for a folder of which no record can
    be made; `GymError` when the folder is a copy: fetched, or of a directory that is known.
    """
    run_dir = run_dir.absolute()
    paths = RunPaths(run_dir)
    if not run_dir.is_dir():
        raise GymError(f"there is no folder {run_dir}; give a run directory.")
    if paths.fetched.exists():
        raise GymError(f"{run_dir} is a fetched copy, not a run directory; give it in place of an id.")
    if paths.record.exists():
        return add(index.moved(read(paths.record), run_dir), "indexed")
    record = made_again(run_dir, now=now)
    try:
        create_file(paths.record, record.dumps(), mode=SHARED)
    except FileExistsError:
        return add(index.moved(read(paths.record), run_dir), "indexed")
    except (OSError, RunsError) as error:
        reason = getattr(error, "strerror", None) or error
        report(f"{paths.record} could not be written ({reason}): the record is in the local index alone.")
    return add(record, "made")


def read(path: Path) -> SubmissionRecord:
    """The record of a run directory. Raises `DataError` when it is damaged or of a newer Gym."""
    try:
        return index.read_record(path)
    except DataError as error:
        if "newer Gym" in str(error):
            raise
        raise DataError(f"{error} Move it away to have it made again.") from None


def add(record: SubmissionRecord, what: What) -> AdoptedRun:
    """Put a record into the local index; raises `GymError` when it is of a copy of what is known."""
    run_dir = Path(record.run_dir)
    entry = job_paths.index_entry(record.gym_job_id)
    done = AdoptedRun(run_dir, record.gym_job_id, what)
    if entry.exists():
        try:
            known: SubmissionRecord | None = index.read_record(entry)
        except DataError as error:
            if "newer Gym" in str(error):
                raise
            known = None
        same = known is not None and Path(known.run_dir) == run_dir
        if known is not None and same and (known.hostname == record.hostname or run_dir.is_dir()):
            return AdoptedRun(run_dir, record.gym_job_id, "known")
        if known is not None and (known.hostname is not None or Path(known.run_dir).is_dir()):
            where = f" on {known.hostname}" if known.hostname is not None else ", which still exists"
            raise GymError(
                f"{run_dir}: {record.gym_job_id} is known in {known.run_dir}{where}; a copy is not adopted, "
                "but its folder can be given in place of an id."
            )
        done = AdoptedRun(run_dir, record.gym_job_id, "moved" if known is not None else what)
    entry.parent.mkdir(parents=True, exist_ok=True)
    replace_file(entry, record.dumps(), mode=SHARED)
    return done


def made_again(run_dir: Path, *, now: datetime) -> SubmissionRecord:
    """A record from what a run directory holds: what was written before queueing, else the resolved config.

    Raises `DataError` when its name is not an id, or neither can be read.
    """
    if (known := _as_submitted(run_dir, now)) is not None:
        return known
    from nemo_gym.composition import load_yaml
    from nemo_gym.orchestration.config.resolve import digest_of

    found = _ID.fullmatch(run_dir.name)
    if found is None:
        raise DataError(f"{run_dir}: no record is there, and the folder's name is not an id of a submission.")
    try:
        config = load_yaml(RunPaths(run_dir).resolved_config)
        cluster, compute = next(iter(config["compute"].items()))
        benchmarks = list(_benchmarks(config))
    except (GymError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        if not _names_jobs(run_dir):
            raise DataError(
                f"{run_dir}: nothing in it describes a job, as after a submit that ended before it had "
                "queued one; it can be removed."
            ) from None
        raise DataError(f"{run_dir}: its record is lost and cannot be made again ({error}).") from None
    entries = tuple(_entry(name, RunPaths(run_dir), model) for name, model in benchmarks)
    stamp = datetime.strptime(found[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return SubmissionRecord(
        gym_job_id=run_dir.name,
        gym_version="",
        gym_commit=None,
        submitted_at=f"{stamp:%Y-%m-%dT%H:%M:%SZ}",
        run_dir=str(run_dir),
        cluster=str(cluster),
        executor=str(compute["type"]),
        submitted_by=_owner(run_dir),
        benchmarks=entries,
        hostname=_hostname(compute),
        executor_metadata={ADOPTED: f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"},
        config_digest=digest_of(config),
    )


def _names_jobs(run_dir: Path) -> bool:
    """Whether there is a sign that anything was ever queued; a resolved config is written after that."""
    if RunPaths(run_dir).resolved_config.exists():
        return True
    every = JobPaths(Path("*"))
    signs = (every.events, every.chain, every.links / "*", every.output("*"))
    return any(True for sign in signs for _ in run_dir.glob(str(sign)))


def _as_submitted(run_dir: Path, now: datetime) -> SubmissionRecord | None:
    from nemo_gym.orchestration.records import submission_file

    found = submission_file.read(run_dir)
    if found is None:
        return None
    record = index.moved(SubmissionRecord.load(found.get("record", {})), run_dir)
    entries = tuple(_entry(entry.benchmark, RunPaths(run_dir), entry.model) for entry in record.benchmarks)
    metadata = {**record.executor_metadata, ADOPTED: f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    return replace(record, benchmarks=entries, executor_metadata=metadata)


def _hostname(compute: Mapping[str, Any]) -> str | None:
    """`None`: the directory is on this machine, so this machine is where its jobs are asked about."""
    from nemo_slurm.hosts import is_this_machine

    name = compute.get("hostname")
    return None if name is None or is_this_machine(str(name)) else str(name)


def _owner(run_dir: Path) -> str:
    try:
        return run_dir.owner()
    except (KeyError, OSError):
        return ""


def _benchmarks(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Benchmark and model, in the order of a record."""
    if not config["driver"].get("models"):
        yield from ((name, None) for name in config["driver"]["benchmarks"])
        return
    from nemo_gym.orchestration.config import campaign
    from nemo_gym.orchestration.config.schema import SubmitConfig

    for share in campaign.shares(SubmitConfig.model_validate(config)):
        yield from ((name, share.name) for name in share.benchmarks)


def _entry(benchmark: str, paths: RunPaths, model: str | None) -> BenchmarkEntry:
    job_id = _first_job(paths.job(model or benchmark))
    error = None if job_id is not None else "no job of it is known; its record was lost"
    job_dir = str(paths.job(benchmark).job_dir)
    return BenchmarkEntry(benchmark=benchmark, job_dir=job_dir, job_id=job_id, error=error, model=model)


def _first_job(paths: JobPaths) -> str | None:
    """The first job that was ever queued: its event, else the chain's first line, else the oldest link."""
    wanted = (ChainEvent.SUBMITTED.value, ChainEvent.QUEUED.value, ChainEvent.JOB_STARTED.value)
    for event in read_journal(paths.events):
        if event.get("event") in wanted and isinstance(event.get("job_id"), str):
            return str(event["job_id"])
    chain = paths.chain
    ids = chain.read_text(errors="replace").split() if chain.is_file() else []
    links = paths.link("0").folder.parent
    folders = sorted(links.iterdir(), key=lambda link: link.stat().st_mtime) if links.is_dir() else []
    return next(iter([*ids, *(folder.name.rpartition(".")[0] for folder in folders)]), None)
