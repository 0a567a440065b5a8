"""The runs of experiment trackers that jobs continue: one per job and tracker, for the life of the job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    String,
    Table,
    Text,
    func,
    insert,
    or_,
    select,
    update,
)

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.store import schema
from nemo_helix_server.store.session import StorePart

table = Table(
    "tracker_runs",
    schema.metadata,
    Column("job_id", String(64), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("tracker", String(32), primary_key=True),
    Column("run_id", String(255)),
    Column("url", Text),
    Column("published", BigInteger, nullable=False),
    Column("sending_to", BigInteger),
    Column("sending_at", BigInteger),
    Column("said", String(32)),
    Column("settled", BigInteger),
    Column("problem", Text),
)

_jobs, _runs = schema.jobs.c, table.c
_NOTHING_YET = [status for status in Status if status.is_new or status is Status.DELETION_PENDING]
_WAITING = [
    status for status in Status if (status.is_waiting and not status.is_new) or status is Status.PENDING
]
_MARK = func.coalesce(_jobs.storage_reclaimed_at, _jobs.status_since)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerRun:
    """How much of a job has been published to a tracker."""

    job_id: str
    tracker: str
    run_id: str | None
    """The tracker's name for the run; None: it knows of none yet."""
    url: str | None
    published: int
    """The last training step that the tracker is known to have; 0: none."""
    sending_to: int | None
    """The last step of rows that were sent, or are being sent, without an answer yet."""
    sending_at: int | None
    """The moment those rows bear, in milliseconds: sent again, they are the very same ones."""
    said: str | None
    """The last state that was published to the tracker."""
    settled: int | None
    """The moment since when the job had been as it was when all of it had been published."""
    problem: str | None
    """Why no more can be published now, a sentence."""


class TrackerRunReader(StorePart):
    """Questions about what trackers know."""

    def find(self, job_id: str, tracker: str) -> TrackerRun | None:
        """How much of a job has been published to a tracker."""
        query = select(table).where(_runs.job_id == job_id, _runs.tracker == tracker)
        found = self.connection.execute(query).first()
        return TrackerRun(**found._asdict()) if found else None

    def due(self) -> list[tuple[str, str]]:
        """Job and tracker of each run that may not be published completely."""
        waits = _jobs.status.not_in(_WAITING)
        query = select(_runs.job_id, _runs.tracker).join(schema.jobs, _jobs.id == _runs.job_id)
        query = query.where(
            _jobs.status.not_in(_NOTHING_YET),
            or_(waits, _runs.run_id.is_not(None)),
            or_(_runs.settled.is_(None), _runs.settled != _MARK),
        )
        # sorted as a sum, so that not all jobs are gone through in the order of an index
        found = self.connection.execute(query.order_by(_jobs.created_at + 0))
        return [(row[0], row[1]) for row in found]

    def settling_mark(self, job_id: str) -> int | None:
        """Since when the job is as it is; to be recorded as `TrackerRun.settled`."""
        return self.connection.execute(select(_MARK).where(_jobs.id == job_id)).scalar()


class TrackerRunWriter(TrackerRunReader):
    """Recording what trackers know."""

    def follow_with(self, job_id: str, trackers: Iterable[str]) -> None:
        """Have a new job published to trackers."""
        for tracker in trackers:
            self.connection.execute(insert(table), {"job_id": job_id, "tracker": tracker, "published": 0})

    def note(self, run: TrackerRun, **changes: Any) -> None:
        """Record what is new about a run, column by column."""
        here = (_runs.job_id == run.job_id, _runs.tracker == run.tracker)
        self.connection.execute(update(table).where(*here), changes)
