"""Removing the storage of jobs whose windows have ended, wherever it lies, until that has succeeded.

That a job's storage is deleted is recorded before anything is removed. What the service's data directory
still has of such a job shows that it was not removed everywhere yet, since it goes last.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.storage import run_lookup
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.store.store import JobStore

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""Seconds until what could not be removed is tried again; twice as many each time."""


@dataclass(slots=True)
class _Wanted:
    workspace: str
    due: float = 0.0
    pause: float = _FIRST_PAUSE


@dataclass(slots=True)
class Reclaims:
    """What is still to be removed: said by the controller's thread, done by another one."""

    store: JobStore
    storage: JobStorage
    executors: Executors
    _wanted: dict[str, _Wanted] = field(default_factory=dict)
    _busy: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, workspace: str, job_id: str) -> None:
        """Have the storage of a job removed that is recorded as deleted; returns at once."""
        with self._lock:
            self._wanted.setdefault(job_id, _Wanted(workspace))

    def find(self) -> None:
        """Have removed what a service before this one has recorded as deleted, and left."""
        with self.store.read() as unit:
            reclaimed = unit.jobs.reclaimed()
        for workspace, job_id in reclaimed:
            paths = self.storage.paths(workspace, job_id)
            if paths.storage.exists() or paths.scratch.exists():
                self.add(workspace, job_id)

    def is_removing(self, job_id: str) -> bool:
        """Whether files of the job are being removed at this moment: nothing of it may start then."""
        with self._lock:
            return self._busy == job_id

    def run(self, error_isolation: ErrorIsolation) -> None:
        """Try all that is due; what cannot be removed now is tried again, less and less often."""
        now = self.store.clock.monotonic()
        with self._lock:
            due = [(job_id, one) for job_id, one in self._wanted.items() if one.due <= now]
        for job_id, wanted in due:
            done = False
            with self._lock:
                self._busy = job_id
            try:
                with error_isolation.apart(f"the storage of {job_id}"):
                    self._remove(wanted.workspace, job_id)
                    done = True
            finally:
                with self._lock:
                    self._busy = None
                    if done:
                        self._wanted.pop(job_id, None)
                    else:
                        wanted.due = self.store.clock.monotonic() + wanted.pause
                        wanted.pause = min(2 * wanted.pause, _LONGEST_PAUSE)

    def _remove(self, workspace: str, job_id: str) -> None:
        with self.store.read() as unit:
            job = unit.jobs.by_id(job_id)
            runs = run_lookup.executors_of_job(unit, job) if job is not None else []
        if job is None or job.storage_reclaimed_at is None:
            return  # it was deleted, or is to run again and has its storage back
        for files in self.executors.storages(runs):
            files.reclaim(workspace, job_id)
