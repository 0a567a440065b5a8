"""Reading transitions, metrics, checkpoints, tokens, secrets and workspaces."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from nemo_helix_server.jobs.model import Checkpoint, MetricPoint, Secret, Token, Transition, Workspace
from nemo_helix_server.store.queries import TransitionQuery


class RecordReading:
    """Questions about what is recorded beside the jobs; None means that there is no such thing."""

    connection: Connection
    now: int

    def since(self, query: TransitionQuery) -> list[Transition]:
        """Transitions after a sequence number, in order: what feeds streams and mirrors."""
        raise NotImplementedError

    def last_transition(self) -> int:
        """The newest transition's sequence number; 0 before the first."""
        raise NotImplementedError

    def points(self, job_id: str, step_name: str | None = None) -> dict[str, list[MetricPoint]]:
        """The series of a job, each in the order of its steps."""
        raise NotImplementedError

    def tail(self, job_id: str, name: str) -> int:
        """How many bytes of a file of the job have been read; 0 at first."""
        raise NotImplementedError

    def checkpoints(self, job_id: str) -> list[Checkpoint]:
        """The checkpoints of a job, the newest step first."""
        raise NotImplementedError

    def checkpoint(self, job_id: str, checkpoint_id: str) -> Checkpoint | None:
        """A checkpoint of a job."""
        raise NotImplementedError

    def pin_requests(self) -> list[Checkpoint]:
        """Checkpoints that are to be pinned and are not yet, or are to be unpinned and still are."""
        raise NotImplementedError

    def token_by_digest(self, digest: str) -> Token | None:
        """The access token with this digest, revoked and expired ones too."""
        raise NotImplementedError

    def tokens(self) -> list[Token]:
        """All access tokens, the newest first."""
        raise NotImplementedError

    def secrets(self, workspace: str | None) -> Sequence[Secret]:
        """What is known of the secrets of a workspace, by name."""
        raise NotImplementedError

    def secret(self, workspace: str, name: str) -> Secret | None:
        """What is known of one secret."""
        raise NotImplementedError

    def workspaces(self) -> list[Workspace]:
        """All workspaces, by name."""
        raise NotImplementedError

    def workspace(self, name: str) -> Workspace | None:
        """One workspace."""
        raise NotImplementedError
