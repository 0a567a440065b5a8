"""What may be deleted of some submissions: never a run that may live, never one of which nothing is here.

Nothing is changed. Where it is not known whether a job lives, it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemo_gym.chain.evidence import Evidence
from nemo_gym.errors import GymError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import fetch, index
from nemo_gym.orchestration.records.fetch_ledger import Ledger, mark_of
from nemo_gym.orchestration.status import benchmark_state
from nemo_gym.orchestration.status.gather import Groups, Scope, gather
from nemo_gym.orchestration.submit.cancel import is_left
from nemo_runs.clock import SecondsClock, SystemClock, moment
from nemo_slurm.errors import NoSuchPathError, SlurmError
from nemo_slurm.hosts import Host
from nemo_slurm.transfer import RemoteFile, listing

SCHEMA_VERSION = 1

Hosts = Callable[[str | None], Host]
"""Opens the machine of a name; ``None`` is this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCandidate:
    """One submission, and what would go with it."""

    record: SubmissionRecord
    files: int = 0
    size: int = 0
    """Bytes of those files."""
    ended_at: float = 0.0
    """UTC seconds at which it was last heard of, at least when it was submitted."""
    gone: bool = False
    """Its run directory is not there any more; only its entry in the local index is left."""
    refusal: str = ""
    """Why it stays; empty when it may be deleted."""

    def to_json(self) -> dict[str, Any]:
        """The values of ``--json``."""
        values = asdict(self)
        record = values.pop("record")
        head = {"gym_job_id": record["gym_job_id"], "run_dir": record["run_dir"]}
        return {**head, "hostname": record["hostname"], "bytes": values.pop("size"), **values}


def doomed_name(record: SubmissionRecord) -> str:
    """The folder that a run directory becomes while it is deleted, beside its own place."""
    run_dir = Path(record.run_dir)
    return str(run_dir.with_name(f".removing-{record.gym_job_id}"))


def candidates(
    records: Sequence[SubmissionRecord],
    machines: Groups,
    hosts: Hosts,
    *,
    clock: SecondsClock | None = None,
) -> list[RemovalCandidate]:
    """Look at each submission and its jobs, on its own machine."""
    clock = clock or SystemClock()
    known: dict[str, list[Evidence]] = {}
    for (gym_job_id, _), evidence in gather(
        records, machines, scope=Scope(every_job=True), clock=clock
    ).items():
        known.setdefault(gym_job_id, []).append(evidence)
    return [_candidate(record, known.get(record.gym_job_id, []), hosts) for record in records]


def older(found: Iterable[RemovalCandidate], *, now: float, seconds: float) -> list[RemovalCandidate]:
    """Those that were last heard of so many seconds ago or more."""
    return [candidate for candidate in found if now - candidate.ended_at >= seconds]


def _candidate(record: SubmissionRecord, known: Sequence[Evidence], hosts: Hosts) -> RemovalCandidate:
    ended_at = max([_submitted(record), *map(benchmark_state.ended_at, known)])
    try:
        host = hosts(record.hostname)
        there = _files(record, host)
    except SlurmError as error:
        return RemovalCandidate(record=record, ended_at=ended_at, refusal=str(error).rstrip("."))
    refusal = _refusal(record, known, there)
    files = there or {}
    return RemovalCandidate(
        record=record,
        files=len(files),
        size=sum(file.size for file in files.values()),
        ended_at=ended_at,
        gone=there is None,
        refusal=refusal,
    )


def _refusal(
    record: SubmissionRecord, known: Sequence[Evidence], there: Mapping[str, RemoteFile] | None
) -> str:
    for evidence in known:
        if evidence.unread:
            return f"{evidence.where} gives no answer, so nobody knows whether it has ended"
        if is_left(evidence):
            name = evidence.benchmark
            return f"{name} is at work, or may be: `gym job cancel {record.gym_job_id} {name}` ends it first"
    is_here = record.hostname is None or Path(record.run_dir).is_dir()
    if there is None or is_here:
        return ""
    missing = _unfetched(record, there)
    if missing is None:
        return f"it was never fetched: `gym job fetch {record.gym_job_id}` copies its results here first"
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return (
            f"{missing[0]}{more} is not in the fetched copy, or was changed since: "
            f"`gym job fetch {record.gym_job_id}` brings it up to date first"
        )
    return ""


def _files(record: SubmissionRecord, host: Host) -> dict[str, RemoteFile] | None:
    """The files of the run directory, or of what an earlier removal left; ``None``: neither is there."""
    for folder in (record.run_dir, doomed_name(record)):
        try:
            return {file.path: file for file in listing(host, folder)}
        except NoSuchPathError:
            continue
    return None


def _unfetched(record: SubmissionRecord, there: Mapping[str, RemoteFile]) -> list[str] | None:
    """What no fetched copy has as it is there; ``None`` when there is no copy. The best copy counts."""
    wanted = [file for path, file in there.items() if fetch.is_wanted(path, logs=False)]
    missing = [_missing(record, folder, wanted) for folder in index.fetched_copies(record.gym_job_id)]
    found = [paths for paths in missing if paths is not None]
    return min(found, key=len) if found else None


def _missing(record: SubmissionRecord, folder: Path, wanted: Sequence[RemoteFile]) -> list[str] | None:
    try:
        if index.read_record(RunPaths(folder).record).gym_job_id != record.gym_job_id:
            return None
        ledger = Ledger.load(folder, record)
    except (GymError, OSError):
        return None
    return [
        file.path
        for file in wanted
        if mark_of(folder / file.path) != file.mark or not ledger.proven(file.path, folder / file.path)
    ]


def _submitted(record: SubmissionRecord) -> float:
    try:
        return moment(record.submitted_at) / 1_000_000
    except ValueError:
        return 0.0
