"""What has happened: every change of a status, kept for good, and how often places interrupted steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs import interruptions
from nemo_helix_server.jobs.interruptions import SeenInterruptions
from nemo_helix_server.jobs.model import Job, Step, TransitionRow
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.queries import TransitionQuery
from nemo_helix_server.store.session import StorePart
from nemo_runs.clock import SECOND

_transitions, _days = schema.transitions.c, schema.place_days.c
_DAY = 86_400 * SECOND

_INSERT = insert(schema.transitions)


class TransitionReader(StorePart):
    """Questions about the history."""

    def since(self, query: TransitionQuery) -> list[TransitionRow]:
        """Transitions after a sequence number, in order: what feeds streams and mirrors."""
        wanted = select(schema.transitions).where(_transitions.seq > query.after)
        if query.workspace is not None:
            wanted = wanted.where(_transitions.workspace == query.workspace)
        if query.job_id is not None:
            wanted = wanted.where(_transitions.job_id == query.job_id)
        ordered = wanted.order_by(_transitions.seq).limit(query.limit)
        return [rows.transition(row) for row in self.connection.execute(ordered)]

    def last(self, *, before: int | None = None) -> int:
        """The newest transition's sequence number, of those before a moment; 0 before the first."""
        query = select(func.max(_transitions.seq))
        if before is not None:
            query = query.where(_transitions.at < before)
        return int(self.connection.execute(query).scalar() or 0)


class TransitionWriter(TransitionReader):
    """Adding to the history."""

    def record(self, *happened: Mapping[str, Any]) -> None:
        """Keep changes of statuses, each made by `change`, in this order."""
        self.connection.execute(_INSERT, list(happened))

    def change(
        self,
        job: Job,
        event: StatusEvent,
        origin: HelixJobStatus | None,
        to: HelixJobStatus,
        *,
        who: str,
        why: str,
        step: Step | None = None,
        task: str | None = None,
    ) -> dict[str, Any]:
        """One change of a status, to be recorded; without a step it is the job's."""
        return {
            "workspace": job.workspace,
            "job_id": job.id,
            "job": job.name,
            "attempt_id": step.attempt_id if step else job.attempt_id,
            "step_id": step.id if step else None,
            "step": step.name if step else None,
            "task": task or (step.task if step else None),
            "origin": origin,
            "to": to,
            "event": event,
            "reason": step.reason if step else job.reason,
            "at": self.now,
            "who": who,
            "why": why,
            "about": "task" if task else "step" if step else "job",
        }


class PlaceReader(StorePart):
    """How often places have interrupted the steps that ran there."""

    def seen(self, place: str) -> SeenInterruptions:
        """What the allocations of a place came to, of its newest days."""
        sums = (func.sum(_days.allocations), func.sum(_days.interruptions), func.sum(_days.seconds))
        query = select(*sums).where(_days.place == place, _days.day > self.now // _DAY - interruptions.DAYS)
        allocations, interrupted, seconds = self.connection.execute(query).one()
        return SeenInterruptions(
            allocations=int(allocations or 0), interruptions=int(interrupted or 0), seconds=seconds or 0.0
        )


class PlaceWriter(PlaceReader):
    """Counting the ends of allocations."""

    def count(self, place: str, *, seconds: float, interrupted: bool) -> None:
        """One allocation of a place has ended after so many seconds; days that count no more are dropped."""
        day = self.now // _DAY
        here = (_days.place == place, _days.day == day)
        if self.connection.execute(select(_days.day).where(*here)).first() is None:
            old = _days.day <= day - interruptions.DAYS
            self.connection.execute(delete(schema.place_days).where(_days.place == place, old))
            nothing = {"place": place, "day": day, "allocations": 0, "interruptions": 0, "seconds": 0.0}
            self.connection.execute(insert(schema.place_days), nothing)
        self.connection.execute(
            update(schema.place_days)
            .where(*here)
            .values(
                allocations=_days.allocations + 1,
                interruptions=_days.interruptions + int(interrupted),
                seconds=_days.seconds + seconds,
            )
        )
