"""Writing what is not a status: jobs, attempts, details, results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_helix_server.jobs.model import Attempt, Job, Json, NewAttempt, NewJob, Result, Step
from nemo_helix_server.store.moves import Moving


class JobWriting(Moving):
    """Making and changing jobs."""

    def create_job(self, new: NewJob, *, who: str, why: str) -> Job:
        """Make a job with its first attempt and step, creation_pending.

        Raises `ConflictError` when the name or the client token is taken.
        """
        raise NotImplementedError

    def create_attempt(self, job_id: str, new: NewAttempt, *, who: str, why: str) -> Attempt | None:
        """Add an attempt with its first step, created, and make it the current one.

        The series of the attempt before are kept with it. None when the job's current attempt is not in error.
        """
        raise NotImplementedError

    def note_step(self, step_id: str, details: Mapping[str, Any]) -> Step | None:
        """Merge into a step's status details; neither its status nor its clocks move."""
        raise NotImplementedError

    def note_attempt(self, attempt_id: str, details: Mapping[str, Any]) -> Attempt | None:
        """Merge into an attempt's status details; neither its status nor its clocks move."""
        raise NotImplementedError

    def note_image(self, step_id: str, digest: str | None, name: str) -> Step | None:
        """Record what a step runs in, and on the step a warning where that is not what saved its checkpoint."""
        raise NotImplementedError

    def set_control(
        self, job_id: str, *, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None
    ) -> Job | None:
        """Change the job's storage windows; None keeps what is set."""
        raise NotImplementedError

    def set_description(self, job_id: str, description: str) -> Job | None:
        """Change the job's description."""
        raise NotImplementedError

    def set_definition(self, job_id: str, spec: Json, platform_spec: Json) -> Job | None:
        """Change what later attempts are made from."""
        raise NotImplementedError

    def set_storage_bytes(self, job_id: str, size: int) -> None:
        """Record what the job's storage was measured to take."""
        raise NotImplementedError

    def reclaim_storage(self, job_id: str) -> Job | None:
        """Record that the job's storage is deleted, on job and attempt; its checkpoints are gone with it.

        None when that is recorded already, or the job is not in paused, cancelling, cancelled, completed or error:
        then nothing may be deleted. Written before the files go.
        """
        raise NotImplementedError

    def put_result(self, job_id: str, name: str, artifact_url: str, artifact_storage_type: str) -> Result:
        """Name an artifact of the current attempt; raises `ConflictError` when the name is taken."""
        raise NotImplementedError

    def remove_job(self, job_id: str) -> bool:
        """Remove a deletion_pending job and all that belongs to it; transitions and pinned checkpoints stay."""
        raise NotImplementedError
