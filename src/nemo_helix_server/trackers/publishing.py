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
from nemo_helix_server.trackers.endpoints import TrackerEndpoints, tracker_endpoints
from nemo_helix_server.trackers.publisher import PublisherProcess
from nemo_helix_server.trackers.sync import TrackerSync
from nemo_helix_server.trackers.worker import TrackerWorker

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Publishing:
    """See `build`."""

    sync: TrackerSync
    endpoints: TrackerEndpoints
    interval: float
    _workers: dict[TrackerEndpoint, TrackerWorker] = field(default_factory=dict)
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
        for worker in list(self._workers.values()):
            worker.stop()

    def wake(self) -> None:
        """There may be something to publish."""
        self._pending.set()

    def look(self) -> None:
        """Hand what is due to the lanes."""
        with self.sync.store.read() as unit:
            due = unit.tracker_runs.due()
        for job_id, tracker in due:
            snapshot = self.sync.look(job_id, tracker)
            if snapshot is None:
                continue
            if snapshot.due:
                self._worker(snapshot.description.endpoint).offer((job_id, tracker))
            else:
                self.sync.settle(snapshot)

    def _worker(self, endpoint: TrackerEndpoint) -> TrackerWorker:
        if endpoint not in self._workers:
            self._workers[endpoint] = TrackerWorker(
                endpoint.tracker, self.sync, lambda: self._publisher(endpoint)
            )
        return self._workers[endpoint]

    def _publisher(self, endpoint: TrackerEndpoint) -> PublisherProcess:
        name = hashlib.sha256(repr(endpoint).encode()).hexdigest()[:8]
        return PublisherProcess(
            python=self.endpoints.python(),
            environment=self.endpoints.environment(endpoint),
            log=self.endpoints.folder / "logs" / f"{endpoint.tracker}-{name}.log",
            timeout=self.endpoints.settings.trackers.timeout_seconds,
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
    return Publishing(
        TrackerSync(store, storage), tracker_endpoints(settings), settings.trackers.interval_seconds
    )
