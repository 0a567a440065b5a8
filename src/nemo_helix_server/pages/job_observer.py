"""Keeps the rows of all jobs in the table of the page Runs: what changes is read again, the rest is not.

It begins when somebody opens pages for the first time and rests while nobody looks, so that a service whose
pages nobody uses spends nothing on them. What a browser is shown comes from memory, with the age of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import ServerError
from nemo_helix_server.jobs import bill
from nemo_helix_server.jobs.filtering.parse import Compare, Operator
from nemo_helix_server.jobs.model import Job
from nemo_helix_server.jobs.ports import StorageLimits
from nemo_helix_server.pages import rows
from nemo_helix_server.service import responses
from nemo_helix_server.store.queries import JobStretch, ListPlace, TransitionQuery
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_pages.runs.rows import RunRow
from nemo_pages.runs.table import RunTable, SourceState
from nemo_runs.clock import SECOND, Clock

_LOG = logging.getLogger(__name__)
SOURCE: Final = "jobs"
EVERY: Final = 2.0
"""Seconds between two looks."""
IDLE_AFTER: Final = 600.0
"""Seconds after which nobody is taken to look any more."""
FIRST_WAIT: Final = 0.3
"""Seconds that the first page waits for the first look, which is enough for some thousand jobs."""
_AT_ONCE: Final = 300
_PAUSE: Final = 0.02
"""Seconds left to requests between two parts of the first look."""
_RUNNING = Compare(
    "status", Operator.IN, tuple(status.value for status in HelixJobStatus if status.holds_workload)
)


@dataclass(slots=True)
class JobObserver:
    """Reads jobs behind the pages; every method can be called in any thread."""

    store: JobStore
    limits: StorageLimits
    clock: Clock
    table: RunTable
    _keys: dict[str, str] = field(default_factory=dict)
    """The key of the row of each job, by the job's id."""
    _seen_to: int = 0
    """The newest transition that was seen."""
    _changed_to: dict[str, int] = field(default_factory=dict)
    """Of each workspace the newest change of a job that was seen."""
    _whole: bool = False
    _wanted_at: float | None = None
    _looked: threading.Event = field(default_factory=threading.Event)
    _woken: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _closed: bool = False

    def __post_init__(self) -> None:
        self.table.observed(SourceState(SOURCE, None))

    def wanted(self) -> None:
        """Somebody looks: begin, or go on; the first one waits a moment for the first look."""
        with self._lock:
            idle = self._is_idle()
            self._wanted_at = self.clock.monotonic()
            if idle:
                self._looked.clear()
                self._woken.set()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="pages-jobs", daemon=True)
                self._thread.start()
        self._looked.wait(FIRST_WAIT)

    def close(self) -> None:
        """End the looking."""
        self._closed = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(timeout=30)

    def look(self) -> None:
        """Read what has changed since the last look; everything the first time, the newest jobs first."""
        at = self.clock.now()
        with self._looking:
            if not self._whole:
                self._first_look()
            with self.store.read() as reader:
                self._put(reader, self._changed(reader))
                self._remove_gone(reader)
        self.table.observed(SourceState(SOURCE, at / SECOND))

    def _run(self) -> None:
        while not self._closed:
            try:
                self.look()
            except ServerError as error:
                self.table.observed(SourceState(SOURCE, self.clock.now() / SECOND, error.detail))
            except Exception as error:  # noqa: BLE001 - the next look may see what this one could not
                _LOG.exception("jobs could not be looked at")
                said = f"the last look at jobs failed: {error}"
                self.table.observed(SourceState(SOURCE, self.clock.now() / SECOND, said))
            self._looked.set()
            self._woken.clear()
            self._woken.wait(None if self._is_idle() else EVERY)

    def _is_idle(self) -> bool:
        return self._wanted_at is None or self.clock.monotonic() - self._wanted_at > IDLE_AFTER

    def _first_look(self) -> None:
        """All jobs, in parts, so that requests get their turn; what changes meanwhile the next look sees."""
        with self.store.read() as reader:
            self._seen_to = reader.transitions.last()
            self._changed_to = reader.jobs.changed_to()
        place: ListPlace | None = None
        while not self._closed:
            with self.store.read() as reader:
                found = reader.jobs.stretch(JobStretch(workspace=None, behind=place, limit=_AT_ONCE))
                self._put(reader, found)
            if len(found) < _AT_ONCE:
                self._whole = True
                return
            place = ListPlace(found[-1].created_at, found[-1].id)
            self._woken.wait(_PAUSE)

    def _changed(self, reader: StoreReader) -> Iterator[Job]:
        """Jobs whose status, description or the like has changed, and those that run."""
        ids: set[str] = set()
        while found := reader.transitions.since(TransitionQuery(after=self._seen_to)):
            ids.update(row.job_id for row in found)
            self._seen_to = found[-1].seq
        for workspace, newest in reader.jobs.changed_to().items():
            before = self._changed_to.get(workspace, 0)
            if newest > before:  # units that write take turns, so nothing is added at a moment that was seen
                ids.update(reader.jobs.changed_after(workspace, before))
                self._changed_to[workspace] = newest
        running = JobStretch(workspace=None, where=_RUNNING, limit=_AT_ONCE)
        shown = {job.id: job for job in reader.jobs.stretch(running)}
        yield from shown.values()
        left = sorted(ids - shown.keys())
        for first in range(0, len(left), _AT_ONCE):
            yield from reader.jobs.those(left[first : first + _AT_ONCE])

    def _put(self, reader: StoreReader, jobs: Iterable[Job]) -> None:
        found = list(jobs)
        for first in range(0, len(found), _AT_ONCE):
            made = list(self._rows(reader, found[first : first + _AT_ONCE]))
            self.table.put(SOURCE, made)

    def _rows(self, reader: StoreReader, jobs: Sequence[Job]) -> Iterator[RunRow]:
        now = datetime.fromtimestamp(self.clock.now() / SECOND, UTC)
        details = reader.tasks.details_of([job.id for job in jobs])
        for job in jobs:
            shown = responses.job(job, self.limits, self.clock)
            used = bill.used(details.get(job.id, ()), now.timestamp())
            row = rows.row_of(shown, (), now, used)
            self._keys[job.id] = row.key
            yield row

    def _remove_gone(self, reader: StoreReader) -> None:
        """Remove the rows of jobs that were deleted; who has a row of the same name by now keeps it."""
        if reader.jobs.number() == len(self._keys):
            return
        there = reader.jobs.ids()
        gone = [job_id for job_id in self._keys if job_id not in there]
        keys = {self._keys.pop(job_id) for job_id in gone}
        self.table.remove(sorted(keys - set(self._keys.values())))
