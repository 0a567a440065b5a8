"""Storage windows: settled jobs keep their storage for a while, then it is deleted, and paused ones end.

The status is always written first, by compare-and-set: a resume at the same moment either comes before that,
and the storage stays, or after it, and is refused. Files go only afterwards, see `reclaims`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.controller.reclaims import Reclaims
from nemo_helix_server.jobs import retention
from nemo_helix_server.jobs.model import CheckpointRow, Job
from nemo_helix_server.jobs.ports import StorageLimits
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.store.job_reader import Settled
from nemo_helix_server.store.store import JobStore


@dataclass(slots=True)
class RetentionWindows:
    """Ends the windows whose time has come."""

    store: JobStore
    reclaims: Reclaims
    limits: StorageLimits
    error_isolation: ErrorIsolation

    def run(self) -> float | None:
        """End what is due; the seconds until the next window ends, when there is one."""
        with self.store.read() as unit:
            settled = unit.jobs.settled(retention.WITH_WINDOW)
        left = [(job, self._left(job)) for job in settled]
        for job, seconds in left:
            if seconds is not None and seconds <= 0:
                with self.error_isolation.apart(job.id):
                    self._end(job)
        return min((seconds for _, seconds in left if seconds is not None and seconds > 0), default=None)

    def _left(self, job: Job | Settled) -> float | None:
        """Seconds until a job's window ends; None where none runs."""
        ends_at = retention.storage_expires_at(
            job.status,
            stopped_at=job.stopped_at,
            reclaimed_at=job.storage_reclaimed_at if isinstance(job, Job) else None,
            pause_ttl_seconds=job.pause_ttl_seconds,
            failed_ttl_seconds=job.failed_ttl_seconds,
            limits=self.limits,
        )
        return retention.seconds_left(
            ends_at, stopped_at=job.stopped_at, stopped_mark=job.stopped_mark, clock=self.store.clock
        )

    def _over(self, job: Job) -> bool:
        left = self._left(job)
        return left is not None and left <= 0

    def _end(self, job: Settled) -> None:
        if job.status is Status.PAUSED:
            self._cancel(job)
            return
        with self.store.write() as unit:
            # the row as it is now: a rerun or another window may have come first
            current = unit.jobs.by_id(job.id)
            if current is None or current.status is not job.status or current.attempt_id != job.attempt_id:
                return
            if not self._over(current):
                return
            if any(_is_to_be_pinned(checkpoint) for checkpoint in unit.checkpoints.of_job(job.id)):
                return  # it is copied within moments; the next look ends the window
            reclaimed = unit.jobs.reclaim_storage(job.id)
        if reclaimed is not None:
            self.reclaims.add(reclaimed.workspace, job.id)

    def _cancel(self, job: Settled) -> None:
        with self.store.write() as unit:
            current = unit.jobs.by_id(job.id)
            if current is None or not self._over(current):
                return
            step = unit.steps.current(current.attempt_id)
            unit.statuses.move(
                step.id,
                StatusChange(
                    StatusEvent.WINDOW_EXPIRED,
                    who="retention",
                    why="the storage window of the pause ended",
                    expected=Status.PAUSED,
                    reason=StatusReason.PAUSE_WINDOW_ENDED,
                ),
            )


def _is_to_be_pinned(checkpoint: CheckpointRow) -> bool:
    return checkpoint.pin_requested_at is not None and checkpoint.pinned_at is None
