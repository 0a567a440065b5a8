"""What may take long and changes no status, in one thread beside the controller's loop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.controller.reclaims import Reclaims
from nemo_helix_server.errors import UnavailableError
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs.model import CheckpointRow, Job
from nemo_helix_server.storage import checkpoints, run_lookup
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.record_mirror import RecordMirror
from nemo_helix_server.storage.run_storage import RunStorage
from nemo_helix_server.store.store import JobStore

_LOG = logging.getLogger(__name__)
_BATCH = 100
_STOP_TIMEOUT = 10.0
_INDEXED_AT_ONCE = 200
_WRITE_GAP = 0.005
"""Seconds in which others can write, between two units of many."""
_AGAIN = 5.0
"""Seconds until there is another round, while something has failed."""
_BETWEEN = 0.5
"""Seconds between two rounds, so that bursts are written down together."""
_SHARE, _LONGEST_BETWEEN = 4.0, 5.0
"""So many times what a round took are between it and the next, up to so many seconds."""


@dataclass(slots=True)
class BackgroundTasks:
    """Writes records, makes pins, removes deleted jobs and expired storage, measures storage."""

    store: JobStore
    storage: JobStorage
    executors: Executors
    mirror: RecordMirror
    reclaims: Reclaims
    deleted: Callable[[], None] = lambda: None
    """Called after jobs were removed."""
    error_isolation: ErrorIsolation = field(default_factory=ErrorIsolation)
    _pending: threading.Event = field(default_factory=threading.Event)
    _end: threading.Event = field(default_factory=threading.Event)
    _to_measure: dict[str, tuple[str, str]] = field(default_factory=dict)
    _unindexed: bool = True
    """There may be jobs whose specs are not in the index."""
    _stopping: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name="background tasks", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = _STOP_TIMEOUT) -> None:
        """Finish the round that is under way, if that does not take long, and end."""
        self._stopping = True
        self._end.set()
        self._pending.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def wake(self) -> None:
        """There may be something to do."""
        self._pending.set()

    def measure(self, workspace: str, job_id: str) -> None:
        """Have a job's storage measured."""
        self._to_measure[job_id] = (workspace, job_id)
        self._pending.set()

    def run(self) -> None:
        """One round of everything; none waits for another: only removing helps when the disk is full."""
        self.error_isolation.begin()
        work = {
            "the trash": self.storage.empty_trash,
            "deletion": self._delete,
            "the records of jobs": self._write_down,
            "pins": self._pin,
            "the sizes of jobs": self._measure,
            "the index of specs": self._index,
            "ended storage windows": self._reclaim,
        }
        for what, task in work.items():
            with self.error_isolation.apart(what):
                task()

    def _reclaim(self) -> None:
        self.reclaims.run(self.error_isolation)

    def _write_down(self) -> None:
        while self.mirror.run() and not self._stopping:
            pass

    def _index(self) -> None:
        """Of jobs from before there was an index; a few at a time, so that nobody waits long to write."""
        while self._unindexed and not self._stopping:
            with self.store.write() as unit:
                self._unindexed = unit.jobs.index_specs(_INDEXED_AT_ONCE)
            time.sleep(_WRITE_GAP)

    def _loop(self) -> None:
        while not self._stopping:
            self._pending.wait(_AGAIN if self.error_isolation.sentences() else None)
            self._pending.clear()
            began = time.monotonic()
            try:
                self.run()
            except UnavailableError:
                self._pending.set()  # the controller says so
            except Exception:  # noqa: BLE001 - the outermost edge of a thread: the next round tries again
                _LOG.exception("a round of background tasks failed and is tried again")
                self._pending.set()
            self._end.wait(self._rest(time.monotonic() - began))

    @staticmethod
    def _rest(took: float) -> float:
        """Seconds until the next round: where much happens, what happens to one job is written down together,
        and the threads that jobs wait for have most of the time.
        """
        return min(max(_BETWEEN, _SHARE * took), _LONGEST_BETWEEN)

    def _pin(self) -> None:
        with self.store.read() as unit:
            requests = unit.checkpoints.pin_requests()
        for request in requests:
            about = f"the checkpoint {request.id}"
            if not self.error_isolation.is_due(about):
                continue
            with self.error_isolation.apart(about):
                if request.pin_requested_at is not None:
                    self._make_pin(request)
                else:
                    self._files(request).unpin(request)
                    with self.store.write() as unit:
                        unit.checkpoints.set_pinned(request.job_id, request.id, None)
            if not self.error_isolation.is_due(about):
                return

    def _make_pin(self, request: CheckpointRow) -> None:
        path, problem = None, None
        try:
            path = self._files(request).pin(request)
        except checkpoints.PinError as error:
            problem = str(error)
            _LOG.warning("%s", problem)
        with self.store.write() as unit:
            unit.checkpoints.set_pinned(request.job_id, request.id, path, problem)

    def _files(self, checkpoint: CheckpointRow) -> RunStorage:
        with self.store.read() as unit:
            run = run_lookup.run_of_checkpoint(unit, checkpoint)
        return self.executors.files(run)

    def _storages(self, job: Job) -> list[RunStorage]:
        with self.store.read() as unit:
            runs = run_lookup.executors_of_job(unit, job)
        return self.executors.storages(runs)

    def _delete(self) -> None:
        with self.store.read() as unit:
            jobs = unit.jobs.in_status(Status.DELETION_PENDING, _BATCH + self.error_isolation.waiting)
        due = [job for job in jobs if self.error_isolation.is_due(_deletion_of(job))]
        for job in due:
            with self.error_isolation.apart(_deletion_of(job)):
                self._delete_one(job)
            if not self.error_isolation.is_due(_deletion_of(job)):
                break  # it may have taken long, and the other tasks wait for this thread
        if due:
            self.storage.empty_trash()
            self.deleted()
        if len(due) >= _BATCH:
            self._pending.set()

    def _delete_one(self, job: Job) -> None:
        """The files first: a crash in between leaves a job that is still being removed."""
        for files in self._storages(job):
            files.discard(job.workspace, job.id)
        with self.store.write() as unit:
            unit.jobs.remove(job.id)

    def _measure(self) -> None:
        while self._to_measure and not self._stopping:
            sizes: dict[str, int] = {}
            while self._to_measure and len(sizes) < _BATCH and not self._stopping:
                job_id, (workspace, _) = next(iter(self._to_measure.items()))
                del self._to_measure[job_id]
                with self.error_isolation.apart(f"the size of {job_id}"):
                    sizes[job_id] = self._size(workspace, job_id)
            with self.store.write() as unit:
                for job_id, size in sizes.items():
                    unit.jobs.set_storage_bytes(job_id, size)

    def _size(self, workspace: str, job_id: str) -> int:
        with self.store.read() as unit:
            job = unit.jobs.by_id(job_id)
        storages = self._storages(job) if job is not None else [self.executors.data_directory]
        return sum(files.size(workspace, job_id) for files in storages)


def _deletion_of(job: Job) -> str:
    return f"the deletion of {job.workspace}/{job.name}"
