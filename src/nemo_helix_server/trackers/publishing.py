"""Publishing jobs to experiment trackers: finds what is due and hands it to the lane of its door.

Nothing here touches a job: the controller does not know of it, and a tracker that is down costs a warning in
the job's status details. Everything is caught up with from the store once the tracker is back.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import dataclass, field

from nemo_helix_server.errors import ServerError
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.store.store import JobStore
from nemo_helix_server.trackers.descriptions import TrackerEndpoint
from nemo_helix_server.trackers.endpoints import TrackerEndpoints, doors
from nemo_helix_server.trackers.publisher import PublisherProcess
from nemo_helix_server.trackers.sync import TrackerSync
from nemo_helix_server.trackers.worker import TrackerWorker

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Publishing:
    """See `build`."""

    teller: TrackerSync
    doors: TrackerEndpoints
    interval: float
    _lanes: dict[TrackerEndpoint, TrackerWorker] = field(default_factory=dict)
    _pending: threading.Event = field(default_factory=threading.Event)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name="trackers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, without waiting for any tracker: publishers end by themselves when their service does."""
        self._stopping = True
        self._pending.set()
        if self._thread is not None:
            self._thread.join(1.0)
        for lane in list(self._lanes.values()):
            lane.stop()

    def wake(self) -> None:
        """There may be something to tell."""
        self._pending.set()

    def look(self) -> None:
        """Hand what is due to the lanes."""
        with self.teller.store.read() as unit:
            due = unit.tracker_runs.due()
        for job_id, tracker in due:
            subject = self.teller.look(job_id, tracker)
            if subject is None:
                continue
            if subject.due:
                self._lane(subject.description.door).offer((job_id, tracker))
            else:
                self.teller.settle(subject)

    def _lane(self, door: TrackerEndpoint) -> TrackerWorker:
        if door not in self._lanes:
            self._lanes[door] = TrackerWorker(door.tracker, self.teller, lambda: self._publisher(door))
        return self._lanes[door]

    def _publisher(self, door: TrackerEndpoint) -> PublisherProcess:
        name = hashlib.sha256(repr(door).encode()).hexdigest()[:8]
        return PublisherProcess(
            python=self.doors.python(),
            environment=self.doors.environment(door),
            log=self.doors.folder / "logs" / f"{door.tracker}-{name}.log",
            patience=self.doors.settings.trackers.timeout_seconds,
        )

    def _loop(self) -> None:
        while not self._stopping:
            try:
                self.look()
            except ServerError as error:
                _LOG.warning("trackers are looked after later: %s", error)
            except Exception:  # noqa: BLE001 - the outermost edge of a thread: the next look tries again
                _LOG.exception("looking after trackers failed and is tried again")
            self._pending.wait(self.interval)
            self._pending.clear()


def build(store: JobStore, storage: JobStorage, settings: Settings) -> Publishing:
    """Put it together."""
    return Publishing(TrackerSync(store, storage), doors(settings), settings.trackers.interval_seconds)
