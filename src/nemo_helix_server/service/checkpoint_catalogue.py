"""Checkpoints as their users see them: which a job has, and requests to keep one beyond its storage.

The controller finds them and makes and removes the pinned copies; here it is only asked to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.job_words import deciding
from nemo_helix_server.errors import StateConflictError, UnknownNameError
from nemo_helix_server.jobs.model import Caller, CheckpointRow, Job
from nemo_helix_server.storage import run_lookup
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import RunStorage
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import wire


@dataclass(frozen=True, slots=True)
class CheckpointCatalogue:
    """The checkpoints of jobs."""

    store: JobStore
    files: Callable[[StepRun], RunStorage]
    """The storage that has the files of a run."""
    wake: Callable[[], None]

    def all(self, workspace: str, name: str) -> dict[str, Any]:
        """The checkpoints of a job, the newest step first."""
        with self.store.read() as reader:
            job = _job(reader, workspace, name)
            return {"data": [shown(found, job) for found in reader.checkpoints.of_job(job.id)]}

    def get(self, workspace: str, name: str, checkpoint: str) -> dict[str, Any]:
        """One checkpoint, by its id."""
        with self.store.read() as reader:
            job = _job(reader, workspace, name)
            return shown(_checkpoint(reader, job, checkpoint), job)

    def pin(self, caller: Caller, workspace: str, name: str, checkpoint: str) -> dict[str, Any]:
        """Have a checkpoint copied out of the job's storage, so that it outlives it.

        Once this has answered, neither its trainer nor the end of a storage window removes it before that.
        """
        return self._request(caller, workspace, name, checkpoint, pin=True)

    def unpin(self, caller: Caller, workspace: str, name: str, checkpoint: str) -> dict[str, Any]:
        """Have the pinned copy removed; the checkpoint in the job's storage is left alone."""
        return self._request(caller, workspace, name, checkpoint, pin=False)

    def _request(
        self, caller: Caller, workspace: str, name: str, checkpoint: str, *, pin: bool
    ) -> dict[str, Any]:
        if pin:
            self._hold(workspace, name, checkpoint)
        with self.store.write() as writer:
            job = _job(writer, workspace, name)
            found = _checkpoint(writer, job, checkpoint)
            asked = writer.checkpoints.request_pin(job.id, checkpoint, by=caller.name, pin=pin)
        self.wake()
        return shown(asked or found, job)

    def _hold(self, workspace: str, name: str, checkpoint: str) -> None:
        """Keep the trainer from pruning a checkpoint that is still in the job's storage alone."""
        with self.store.read() as reader:
            job = _job(reader, workspace, name)
            found = _checkpoint(reader, job, checkpoint)
            run = run_lookup.run_of_checkpoint(reader, found)
        if found.pinned_at is None:
            _check_usable(found, job)
            if not self.files(run).hold(found):
                raise _gone(found, job)


def _job(reader: StoreReader, workspace: str, name: str) -> Job:
    job = reader.jobs.find(workspace, name)
    if job is None:
        raise UnknownNameError(f"there is no job '{name}' in the workspace '{workspace}'")
    return job


def _checkpoint(reader: StoreReader, job: Job, checkpoint: str) -> CheckpointRow:
    found = reader.checkpoints.find(job.id, checkpoint)
    if found is None:
        raise UnknownNameError(
            f"job '{job.name}' has no checkpoint '{checkpoint}'; "
            f"`nemo jobs checkpoints list {job.name} --workspace {job.workspace}` shows what there is"
        )
    return found


def _check_usable(found: CheckpointRow, job: Job) -> None:
    if not found.present:
        raise _gone(found, job)
    if found.problem is not None:
        raise StateConflictError(
            f"the checkpoint '{found.id}' is damaged and is not worth keeping: {found.problem}"
        )


def _gone(found: CheckpointRow, job: Job) -> StateConflictError:
    return StateConflictError(f"the checkpoint '{found.id}' is not in the storage of '{job.name}' any more")


def shown(found: CheckpointRow, job: Job) -> dict[str, Any]:
    """A checkpoint as it is answered."""
    return {
        "id": found.id,
        "job": found.job,
        "workspace": found.workspace,
        "attempt_id": found.attempt_id,
        "step_name": found.step_name,
        "task": found.task,
        "step": found.step,
        "size_bytes": found.size,
        "verified": found.problem is None,
        "problem": found.problem,
        "reason": found.reason,
        "best": found.present and found.step == deciding.best_step(job.status_details),
        "pinned": found.pinned_at is not None,
        "pinned_at": None if found.pinned_at is None else wire(found.pinned_at),
        "location": found.pinned_path,
        "metrics": dict(found.metrics),
        "created_at": wire(found.created_at),
    }
