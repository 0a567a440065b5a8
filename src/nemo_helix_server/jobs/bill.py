"""The bill of a job: what each of its allocations used, waited for, and lost. Pure.

It is made of the records that starts leave with their tasks, when they begin and when they end. A start
without one (of an earlier version) is billed by when its status changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nemo_helix_server.jobs.allocations import BEGUN, RECORD, AllocationRecord, size_of
from nemo_helix_server.jobs.model import Attempt, Step, StepTask, TransitionRow
from nemo_helix_server.jobs.states import StatusEvent
from nemo_runs.clock import SECOND

_WAITS_FROM = frozenset(
    {StatusEvent.MADE, StatusEvent.RESUME_REQUESTED, StatusEvent.INTERRUPTED, StatusEvent.PREPARED}
)
"""After these a step waits for its next start."""
_BEGINS, _ACCEPTED = StatusEvent.STARTED, StatusEvent.ACCEPTED
_ENDS = {
    StatusEvent.FINISHED: "completed",
    StatusEvent.FAILED: "failed",
    StatusEvent.PAUSE_DEADLINE_MISSED: "failed",
    StatusEvent.INTERRUPTED: "interrupted",
    StatusEvent.CHECKPOINT_VERIFIED: "paused",
    StatusEvent.STOPPED: "cancelled",
}
"""What an allocation came to, by the event that ended it."""


@dataclass(frozen=True, slots=True)
class BilledStep:
    """One step of an attempt with all its starts, oldest first, and what happened to it, in order."""

    attempt: Attempt
    step: Step
    tasks: Sequence[StepTask]
    history: Sequence[TransitionRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledAllocation:
    """One line of the bill; times in seconds."""

    attempt: int
    """The number of the attempt, from 0."""
    step: str
    task: str
    record: AllocationRecord
    recorded: bool
    """Whether it left a record; else times are those at which the service saw its status change."""
    running: bool
    waited_seconds: float
    """Before it: since its step could have run."""
    end: str | None
    """``completed``, ``failed``, ``interrupted``, ``paused`` or ``cancelled``; `None` = it has not ended."""
    repeated_steps: int
    lost_seconds: float
    """What it did after what is kept of it, where another start does that again."""


def lines(steps: Iterable[BilledStep], now: int) -> list[BilledAllocation]:
    """The allocations of a job, in the order of its steps; ``now`` is in microseconds."""
    found = [line for one in steps for line in _of_step(one, now)]
    last = {line.step: number for number, line in enumerate(found)}
    return [_with_losses(line, again=number < last[line.step]) for number, line in enumerate(found)]


def totals(found: Sequence[BilledAllocation]) -> dict[str, Any]:
    """What a bill comes to."""
    return {
        "allocations": len(found),
        "interruptions": sum(line.end == "interrupted" for line in found),
        "seconds": _sum(line.record.seconds for line in found),
        "node_seconds": _sum(line.record.seconds * line.record.nodes for line in found),
        "gpu_seconds": _sum(line.record.seconds * line.record.gpus for line in found),
        "waited_seconds": _sum(line.waited_seconds for line in found),
        "startup_seconds": _sum(line.record.startup_seconds for line in found),
        "lost_seconds": _sum(line.lost_seconds for line in found),
        "lost_gpu_seconds": _sum(line.lost_seconds * line.record.gpus for line in found),
        "repeated_steps": sum(line.repeated_steps for line in found),
    }


class UsedTime(NamedTuple):
    """What the starts of a job have used, in hours."""

    node_hours: float
    gpu_hours: float


def used(tasks: Iterable[Mapping[str, Any]], now: float) -> UsedTime | None:
    """What the details of a job's tasks say, up to ``now`` in seconds; `None`: nothing is recorded."""
    found = []
    for details in tasks:
        record = AllocationRecord.read(details.get(RECORD))
        begun = AllocationRecord.read(details.get(BEGUN))
        if record is None and begun is not None and begun.began_at is not None:
            record = replace(begun, ended_at=now)
        if record is not None:
            found.append(record)
    if not found:
        return None
    nodes, gpus = (sum(one.seconds * many(one) for one in found) / 3600 for many in (_nodes, _gpus))
    return UsedTime(nodes, gpus)


def _nodes(record: AllocationRecord) -> int:
    return record.nodes


def _gpus(record: AllocationRecord) -> int:
    return record.gpus


def _of_step(billed: BilledStep, now: int) -> Iterable[BilledAllocation]:
    left_at: float | None = None
    for task in billed.tasks:
        of_task = [row for row in billed.history if row.task == task.name]
        record = AllocationRecord.read(task.status_details.get(RECORD))
        end = next((row for row in of_task if row.event in _ENDS), None)
        begun = AllocationRecord.read(task.status_details.get(BEGUN))
        line = record or _seen(billed.step, of_task, end, now, begun)
        yield BilledAllocation(
            attempt=billed.attempt.seq,
            step=billed.step.name,
            task=task.name,
            record=line,
            recorded=record is not None,
            running=end is None and line.began_at is not None,
            waited_seconds=_waited(billed.history, of_task, line, left_at, _eligible_at(record, begun), now),
            end=_ENDS[StatusEvent(end.event)] if end is not None else None,
            repeated_steps=0,
            lost_seconds=0.0,
        )
        left_at = line.ended_at if end is not None and end.event == StatusEvent.INTERRUPTED else None


def _with_losses(line: BilledAllocation, *, again: bool) -> BilledAllocation:
    """With what is done again, where something is: of an end that another start of its step follows."""
    lost = line.end == "interrupted" or (again and line.end not in {None, "completed"})
    if not lost or not line.recorded:
        return line
    values = {name: getattr(line, name) for name in line.__slots__}
    values |= {
        "repeated_steps": line.record.repeated_steps,
        "lost_seconds": line.record.unsaved_seconds,
    }
    return BilledAllocation(**values)


def _seen(
    step: Step,
    of_task: Sequence[TransitionRow],
    end: TransitionRow | None,
    now: int,
    begun: AllocationRecord | None,
) -> AllocationRecord:
    """What is known of a start without a record of its end: what it left when it began, else its changes."""
    if begun is not None and begun.began_at is not None:
        return replace(begun, ended_at=(end.at if end is not None else now) / SECOND)
    began = next((row.at for row in of_task if row.event == _BEGINS), None)
    if began is None and end is not None:
        # one that was over before it was seen to run
        began = next((row.at for row in of_task if row.event == _ACCEPTED), None)
    nodes, gpus = size_of(step.spec)
    ended = end.at if end is not None else now
    return AllocationRecord(
        began_at=None if began is None else began / SECOND,
        ended_at=None if began is None else ended / SECOND,
        nodes=nodes,
        gpus=gpus,
    )


def _eligible_at(*records: AllocationRecord | None) -> float | None:
    return next((one.eligible_at for one in records if one is not None and one.eligible_at is not None), None)


def _waited(
    history: Sequence[TransitionRow],
    of_task: Sequence[TransitionRow],
    record: AllocationRecord,
    left_at: float | None,
    eligible_at: float | None,
    now: int,
) -> float:
    """Seconds before a start: after an interruption from when its place was lost or its scheduler could have
    let it begin, which a service that slept has only seen later.
    """
    accepted = next((row for row in of_task if row.event == _ACCEPTED), None)
    before = [row for row in history if accepted is None or row.seq < accepted.seq]
    last = next((row for row in reversed(before) if row.event in _WAITS_FROM), None)
    if last is None:
        return 0.0
    since = last.at / SECOND
    if last.event == StatusEvent.INTERRUPTED:
        since = min(since, *(at for at in (left_at, eligible_at) if at is not None), since)
    return max(0.0, (record.began_at if record.began_at is not None else now / SECOND) - since)


def _sum(values: Iterable[float]) -> float:
    return round(sum(values), 3)
