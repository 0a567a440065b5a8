"""The history: every change of a status, kept for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, insert, select

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.model import Job, Step, TransitionRow
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.queries import TransitionQuery
from nemo_helix_server.store.session import StorePart

_transitions = schema.transitions.c

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
