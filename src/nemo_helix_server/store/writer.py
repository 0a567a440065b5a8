"""A unit of work that writes: all of it or nothing, and nobody else writes meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from nemo_helix_server.jobs.model import Checkpoint, MetricPoint, Secret, Token, Workspace
from nemo_helix_server.store.writing_jobs import JobWriting


class Writer(JobWriting):
    """Everything that can be asked of and written to the store."""

    def add_points(self, job_id: str, step_name: str, points: Iterable[MetricPoint]) -> None:
        """Add to the series of a step; a point that is there is replaced."""
        raise NotImplementedError

    def truncate_points(self, job_id: str, step_name: str, after: int) -> None:
        """Drop every point of a step's series beyond a training step: training continues from there."""
        raise NotImplementedError

    def set_tail(self, job_id: str, name: str, offset: int) -> None:
        """Record how many bytes of a file of the job have been read, in the unit that stores what they said."""
        raise NotImplementedError

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Record a checkpoint, or what is newly known of it; requests and results of pins are left alone."""
        raise NotImplementedError

    def drop_checkpoints(self, job_id: str, keep: Iterable[str]) -> None:
        """Forget the checkpoints that are not in the job's storage any more; pinned ones stay, as not present."""
        raise NotImplementedError

    def request_pin(self, job_id: str, checkpoint_id: str, *, by: str, pin: bool) -> Checkpoint | None:
        """Ask for a checkpoint to be pinned, or not to be any more."""
        raise NotImplementedError

    def set_pinned(
        self, job_id: str, checkpoint_id: str, path: str | None, problem: str | None = None
    ) -> None:
        """Record where the pinned copy is (None: that there is none), and why it could not be made."""
        raise NotImplementedError

    def put_token(self, token: Token) -> None:
        """Record a new access token."""
        raise NotImplementedError

    def revoke_token(self, token_id: str) -> Token | None:
        """Make a token, named by its id or name, worthless; None when there is none."""
        raise NotImplementedError

    def touch_token(self, token_id: str) -> None:
        """Record that a token was used now."""
        raise NotImplementedError

    def put_secret(self, secret: Secret) -> None:
        """Record a secret, or that it was changed."""
        raise NotImplementedError

    def remove_secret(self, workspace: str, name: str) -> bool:
        """Forget a secret."""
        raise NotImplementedError

    def put_workspace(self, workspace: Workspace) -> bool:
        """Make a workspace; False when it is there already."""
        raise NotImplementedError

    def remove_workspace(self, name: str) -> bool:
        """Remove an empty workspace; False when there is none. Raises `ConflictError` while it has jobs."""
        raise NotImplementedError
