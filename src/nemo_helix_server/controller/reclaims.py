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


@dataclass(slots=True)
class Reclaims:
    """What is still to be removed: said by the controller's thread, done by another one."""

    store: JobStore
    storage: JobStorage
    executors: Executors
    _wanted: dict[str, str] = field(default_factory=dict)
    """The workspaces of jobs, by the jobs."""
    _busy: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, workspace: str, job_id: str) -> None:
        """Have the storage of a job removed that is recorded as deleted; returns at once."""
        with self._lock:
            self._wanted.setdefault(job_id, workspace)

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
        """Try what is due, up to the first that fails; that one is tried again, less and less often."""
        with self._lock:
            wanted = list(self._wanted.items())
        for job_id, workspace in wanted:
            about, done = f"the storage of {job_id}", False
            if not error_isolation.is_due(about):
                continue
            with self._lock:
                self._busy = job_id
            try:
                with error_isolation.apart(about):
                    self._remove(workspace, job_id)
                    done = True
            finally:
                with self._lock:
                    self._busy = None
                    if done:
                        self._wanted.pop(job_id, None)
            if not done:
                return  # it may have taken long, and others wait for this thread

    def _remove(self, workspace: str, job_id: str) -> None:
        with self.store.read() as unit:
            job = unit.jobs.by_id(job_id)
            runs = run_lookup.executors_of_job(unit, job) if job is not None else []
        if job is None or job.storage_reclaimed_at is None:
            return  # it was deleted, or is to run again and has its storage back
        for files in self.executors.storages(runs):
            files.reclaim(workspace, job_id)
