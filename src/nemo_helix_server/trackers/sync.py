"""Telling a tracker about one job: whatever is due, in order, each training step once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nemo_helix_server.jobs.model import Job
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_helix_server.store.tracker_runs import TrackerRun
from nemo_helix_server.trackers import descriptions, planning
from nemo_helix_server.trackers.descriptions import RunDescription
from nemo_helix_server.trackers.errors import TrackerError
from nemo_helix_server.trackers.planning import Plan, TrackerFacts, TrackerState

_MOST = 2000
"""Values that are sent at once, so that an answer never takes long."""
_MILLISECOND = 1000


class TrackerCall(Protocol):
    """What is asked: see `nemo_helix_server.trackers.publisher.PublisherProcess`."""

    opened: set[str]

    def ask(self, **request: Any) -> Mapping[str, Any]:
        """One request and its answer."""
        ...


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job, what its tracker has of it, and what is to be published; read in one unit."""

    job: Job
    run: TrackerRun
    plan: Plan
    mark: int | None

    @property
    def description(self) -> RunDescription:
        """The description of the job that the tracker gets."""
        tracker = next(name for name in descriptions.TRACKERS if name == self.run.tracker)
        return descriptions.describe(self.job, tracker)

    @property
    def warning(self) -> str | None:
        """What the job's current attempt says is wrong with the tracker."""
        return self.job.status_details.get(f"{self.run.tracker}_warning")

    @property
    def due(self) -> bool:
        """Whether there is anything to publish."""
        return self.plan.to > self.run.published or self.plan.state is not None


@dataclass(frozen=True, slots=True)
class TrackerSync:
    """Reads what is due, publishes it, and records what was published."""

    store: JobStore
    storage: JobStorage

    def look(self, job_id: str, tracker: str) -> JobSnapshot | None:
        """What is to be published to a tracker about a job; None when job or run are gone."""
        with self.store.read() as unit:
            job, run = unit.jobs.by_id(job_id), unit.tracker_runs.find(job_id, tracker)
            if job is None or run is None:
                return None
            return JobSnapshot(
                job, run, planning.plan(_facts(unit, job, run)), unit.tracker_runs.settling_mark(job_id)
            )

    def settle(self, snapshot: JobSnapshot) -> None:
        """Record that nothing is left to publish, until the job's status changes."""
        if snapshot.plan.settled:
            self._note(snapshot.run, settled=snapshot.mark)

    def publish(self, snapshot: JobSnapshot, publisher: TrackerCall) -> None:
        """Publish all that is due; raises `TrackerError`, and then the rest stays due."""
        self._open(snapshot, publisher)
        while (latest := self.look(snapshot.job.id, snapshot.run.tracker)) is not None:
            if latest.plan.to > latest.run.published:
                self._send(latest, publisher)
            elif latest.plan.state is not None:
                publisher.ask(op="tell", job=latest.job.id, state=latest.plan.state)
                if latest.plan.state is not TrackerState.RUNNING:
                    publisher.opened.discard(latest.job.id)
                self._note(latest.run, said=latest.plan.state)
                self._show(latest)
                return
            else:
                self._show(latest)
                return

    def problem(self, snapshot: JobSnapshot, error: TrackerError) -> None:
        """Record why a tracker got no update, where the job's user sees it: in each attempt again."""
        if snapshot.run.problem != str(error):
            self._note(snapshot.run, problem=str(error))
        if snapshot.warning != str(error):
            self._warn(snapshot, str(error))

    def _open(self, snapshot: JobSnapshot, publisher: TrackerCall) -> None:
        job, run = snapshot.job, snapshot.run
        if job.id not in publisher.opened:
            said = publisher.ask(
                op="open",
                tracker=run.tracker,
                job=job.id,
                run_id=run.run_id,
                folder=str(self.storage.data_dir / "trackers" / run.tracker / job.id),
                **snapshot.description.to_json(),
            )
            publisher.opened.add(job.id)
            changes = {"run_id": said["run_id"], "url": said["url"]}
            last = said["last"]
            if last is not None and last < run.published:
                # what was sent last never arrived: the tracker knows best, and is sent it again
                changes |= {"published": last, "sending_to": None, "sending_at": None}
            self._note(run, **changes)
        if run.problem is not None:
            self._note(run, problem=None)
        if snapshot.warning is not None:
            self._warn(snapshot, None)

    def _send(self, snapshot: JobSnapshot, publisher: TrackerCall) -> None:
        """Send the next rows. Their moment and number are recorded before, so that they can be sent again.

        What may be sent is decided in the unit that reads the rows: a writer that took over since the
        snapshot trains some steps again, and for its rows the checkpoints of the one before do not vouch.
        """
        job, run = snapshot.job, snapshot.run
        with self.store.read() as unit:
            now = unit.jobs.by_id(job.id)
            allowed = planning.plan(_facts(unit, now, run)).to if now is not None else run.published
            to, at = run.sending_to, run.sending_at
            if to is None or at is None or to > allowed:
                to = at = None
            rows = unit.series.values_by_step(
                job.id,
                descriptions.training_step(job),
                after=run.published,
                to=allowed if to is None else to,
                most=_MOST,
            )
        if allowed <= run.published:
            return
        if to is None or at is None:
            to, at = max(rows, default=allowed), self.store.clock.now() // _MILLISECOND
            self._note(run, sending_to=to, sending_at=at)
        if rows:
            publisher.ask(op="log", job=job.id, rows=list(rows.items()), at=at)
        self._note(run, published=max(rows, default=to), sending_to=None, sending_at=None)

    def _note(self, run: TrackerRun, **changes: Any) -> None:
        with self.store.write() as unit:
            unit.tracker_runs.note(run, **changes)

    def _show(self, snapshot: JobSnapshot) -> None:
        """Where the run is, in the job's status details."""
        with self.store.write() as unit:
            run = unit.tracker_runs.find(snapshot.job.id, snapshot.run.tracker)
            if run is not None:
                shown = {"id": run.run_id, "url": run.url, "step": run.published, "status": run.said}
                unit.attempts.note(snapshot.job.attempt_id, {f"{run.tracker}_run": _known(shown)})

    def _warn(self, snapshot: JobSnapshot, message: str | None) -> None:
        with self.store.write() as unit:
            unit.attempts.note(snapshot.job.attempt_id, {f"{snapshot.run.tracker}_warning": message})


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _facts(unit: StoreReader, job: Job, run: TrackerRun) -> TrackerFacts:
    step = descriptions.training_step(job)
    attempt = unit.attempts.by_id(job.attempt_id)
    named = attempt.checkpoint if attempt is not None else None
    covered = planning.covered(
        [found for found in unit.checkpoints.of_job(job.id) if found.step_name == step],
        unit.series.writers_start(job.id, step),
        attempt_id=job.attempt_id,
        asked_for=unit.checkpoints.find(job.id, named) if named is not None else None,
    )
    covered = planning.before_evaluation(covered, job.status_details)
    over = job.status.is_terminal
    # the series is searched only where that may change something
    needed = over or covered > run.published or run.said is None
    return TrackerFacts(
        status=job.status,
        final=job.storage_reclaimed_at is not None,
        newest=unit.series.newest_step(job.id, step) if needed else run.published,
        covered=covered,
        published=run.published,
        said=TrackerState(run.said) if run.said else None,
    )
