"""The store's transitions as events of streams, each made once however many watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from nemo_helix_server.api.streams import StreamEvent
from nemo_helix_server.jobs.model import Job, TransitionRow
from nemo_helix_server.store.queries import TransitionQuery
from nemo_helix_server.store.store import JobStore

JOB_FIELDS = (
    "id",
    "name",
    "workspace",
    "attempt_id",
    "source",
    "status",
    "reason",
    "status_details",
    "error_details",
    "storage_expires_at",
    "updated_at",
)
"""What an event says about a job: all but its definition."""


@dataclass(frozen=True, slots=True)
class StoreFeed:
    """Reads events from the store."""

    store: JobStore
    show_job: Callable[[Job], Mapping[str, Any]]
    show_transition: Callable[[TransitionRow], Mapping[str, Any]]

    def newest(self) -> int:
        """See `streams.Feed.newest`."""
        with self.store.read() as reader:
            return reader.transitions.last()

    def since(self, seq: int, limit: int) -> Sequence[StreamEvent]:
        """See `streams.Feed.since`."""
        with self.store.read() as reader:
            found = reader.transitions.since(TransitionQuery(after=seq, limit=limit))
            jobs = {job_id: reader.jobs.by_id(job_id) for job_id in {row.job_id for row in found}}
        newest = {row.job_id: row.seq for row in found}
        return [
            self._event(row, jobs[row.job_id] if newest[row.job_id] == row.seq else None) for row in found
        ]

    def _event(self, row: TransitionRow, job: Job | None) -> StreamEvent:
        data = orjson.dumps(self.show_transition(row)).decode()
        shown = job_data(self.show_job(job)) if job else None
        return StreamEvent(row.seq, row.workspace, row.job_id, data, shown)


def job_data(document: Mapping[str, Any]) -> str:
    """What an event says about a job."""
    details = dict(document.get("status_details") or {})
    details.pop("metrics", None)  # whole series: a client that draws them asks for the job
    return orjson.dumps(
        {**{name: document.get(name) for name in JOB_FIELDS}, "status_details": details}
    ).decode()
