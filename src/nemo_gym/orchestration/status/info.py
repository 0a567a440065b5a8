"""Where everything of a submission is, and what happened to each of its jobs, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nemo_gym.chain.evidence import Evidence, Link
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records.run_files import RunFiles
from nemo_gym.orchestration.status import logs
from nemo_gym.orchestration.status.report import BenchmarkStatus, assess
from nemo_gym.text_table import table
from nemo_runs.clock import utc_second
from nemo_runs.counts import counted, noun
from nemo_runs.durations import slurm_time

SCHEMA_VERSION = 1
_COLUMNS = ("RUN", "STARTED", "ENDED", "SCHEDULER", "SUCCESSOR")


@dataclass(frozen=True, slots=True)
class BenchmarkInfo:
    """One benchmark."""

    known: Evidence
    status: BenchmarkStatus
    logs: dict[str, list[str]]
    """Source -> paths, in the order of the jobs."""


def describe(known: Evidence, files: RunFiles) -> BenchmarkInfo:
    """Everything there is to say about one benchmark."""
    paths = {
        source: [str(piece.path) for piece in logs.pieces(known, source, files)]
        for source in logs.sources(known, files)
    }
    return BenchmarkInfo(known, assess(known), paths)


def to_json(record: SubmissionRecord, found: Sequence[BenchmarkInfo]) -> dict[str, Any]:
    """One document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "record": record.to_json(),
        "benchmarks": [_one_json(description) for description in found],
    }


def _one_json(description: BenchmarkInfo) -> dict[str, Any]:
    known = description.known
    return {
        "status": description.status.to_json(),
        "job_ids": list(known.job_ids),
        "links": [asdict(link) for link in known.links],
        "seen": {job_id: asdict(seen.observation) | {"at": seen.at} for job_id, seen in known.seen.items()},
        "accumulated_walltime_s": known.walltime,
        "retries": known.retries,
        "cancelled": known.cancelled or None,
        "resubmissions": [asdict(again) for again in known.resubmissions],
        "problems": list(known.problems),
        "logs": description.logs,
    }


def text(record: SubmissionRecord, found: Sequence[BenchmarkInfo]) -> str:
    """The same for a person."""
    gym = f"gym {record.gym_version} ({record.gym_commit or 'commit not known'})"
    when = f"submitted {record.submitted_at} by {record.submitted_by} with {gym}"
    head = [
        f"{record.gym_job_id}: {record.executor} on {record.cluster}, {when}",
        f"run directory: {record.run_dir}{f' on {record.hostname}' if record.hostname else ''}",
    ]
    return "\n\n".join(["\n".join(head), *("\n".join(_lines(description)) for description in found)])


def _lines(description: BenchmarkInfo) -> Iterable[str]:
    known, status = description.known, description.status
    reason = f": {' '.join(status.reason.split())}" if status.reason else ""
    yield f"{known.benchmark}: {status.state}{reason}"
    yield f"  folder: {known.job_dir}"
    if known.links:
        rows = [link_cells(known, link) for link in known.links]
        yield from (f"  {line}" for line in table(_COLUMNS, rows).splitlines())
        yield from (
            f"  {link.name} decided at its start: {decided(known, link)}"
            for link in known.links
            if link.decision is not None
        )
    if known.walltime is not None or known.retries is not None:
        used = slurm_time(_used(known))
        yield f"  used by ended jobs: {used} of walltime, {counted(known.retries or 0, 'retry', 'retries')}"
    for link in known.links:
        if link.replicas_lost:
            lost = counted(link.replicas_lost, "replica of a service", "replicas of services")
            them = noun(link.replicas_lost, "it", "them")
            yield f"  {link.name} went on without {lost}; its log says what became of {them}"
    if status.links_without_progress:
        yield f"  jobs in a row without a new rollout: {status.links_without_progress}"
    if known.cancelled:
        yield f"  cancelled: {known.cancelled}"
    for again in known.resubmissions:
        raised = [f"max_retries {again.max_retries}"] if again.max_retries is not None else []
        if again.max_walltime is not None:
            raised.append(f"max_walltime {slurm_time(again.max_walltime)}")
        job = again.job_id or again.error or "no job yet"
        yield f"  resubmitted: {', '.join([job, *raised])} ({again.reason})"
    yield from (f"  {note}" for note in status.notes)
    yield from _log_lines(description.logs)
    yield f"  next: {status.next_command}"


def _used(known: Evidence) -> int:
    """Seconds of walltime of jobs that have ended.

    The chain's own count lacks the last of them: a job is counted by its successor, which a finished run has
    not.
    """
    return max(known.walltime or 0, round(sum(_lived(known, link) for link in known.links if link.ended)))


def _lived(known: Evidence, link: Link) -> float:
    """Seconds that an ended run took, as far as anybody saw."""
    seen = known.seen.get(link.job_id)
    ended_at = link.exit.get("ended_at") or (seen.observation.ended_at if seen is not None else None)
    if isinstance(ended_at, int | float) and link.started is not None:
        return max(0.0, ended_at - link.started)
    return float(link.lived or 0)


def _log_lines(logs: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """The newest log of each source in full: a long chain has dozens, all in the same folder."""
    for source, paths in logs.items():
        earlier = f" (the last of {len(paths)}; they are beside it)" if len(paths) > 1 else ""
        yield from (f"  {source} log: {path}{earlier}" for path in paths[-1:])


def decided(known: Evidence, link: Link) -> str:
    """What a job decided at its start, empty for nothing; the first of a resubmission follows no job."""
    decision = link.decision
    if decision is None:
        return ""
    again = next((again for again in known.resubmissions if again.job_id == link.job_id), None)
    action = decision.action.replace("_", " ")
    if again is not None and not link.predecessor:
        return f"{action}: queued again (resubmission {again.number})"
    return f"{action}: {decision.reason}"


def link_cells(known: Evidence, link: Link) -> list[str]:
    """Run, start, end, the scheduler's word, successor: as they are shown in a table."""
    seen = known.seen.get(link.job_id)
    word = (seen.observation.word or seen.observation.state) if seen is not None else ""
    ended = f"{link.end.outcome} (exit status {link.end.status})" if link.end is not None else "-"
    return [
        link.name,
        "-" if link.started is None else utc_second(link.started),
        ended,
        str(link.exit.get("state") or word or "-"),
        link.queued or link.queue_error or "-",
    ]
