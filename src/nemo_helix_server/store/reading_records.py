"""Reading transitions, metrics, checkpoints, tokens, secrets and workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from nemo_helix_server.jobs.model import (
    CheckpointRow,
    MetricPoint,
    SecretRow,
    Token,
    TransitionRow,
    WorkspaceRow,
)
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.queries import TransitionQuery

_transitions, _points, _tails = schema.transitions.c, schema.metric_points.c, schema.tails.c
_checkpoints, _tokens, _secrets = schema.checkpoints.c, schema.tokens.c, schema.secrets.c


class RecordReading:
    """Questions about what is recorded beside the jobs; None means that there is no such thing."""

    connection: Connection
    now: int

    def since(self, query: TransitionQuery) -> list[TransitionRow]:
        """Transitions after a sequence number, in order: what feeds streams and mirrors."""
        wanted = select(schema.transitions).where(_transitions.seq > query.after)
        if query.workspace is not None:
            wanted = wanted.where(_transitions.workspace == query.workspace)
        if query.job_id is not None:
            wanted = wanted.where(_transitions.job_id == query.job_id)
        ordered = wanted.order_by(_transitions.seq).limit(query.limit)
        return [rows.transition(row) for row in self.connection.execute(ordered)]

    def last_transition(self, *, before: int | None = None) -> int:
        """The newest transition's sequence number, of those before a moment; 0 before the first."""
        query = select(func.max(_transitions.seq))
        if before is not None:
            query = query.where(_transitions.at < before)
        return int(self.connection.execute(query).scalar() or 0)

    def points(self, job_id: str, step_name: str | None = None) -> dict[str, list[MetricPoint]]:
        """The series of a job, each in the order of its steps."""
        query = select(_points.step, _points.epoch, _points.name, _points.value)
        query = query.where(_points.job_id == job_id)
        if step_name is not None:
            query = query.where(_points.step_name == step_name)
        series: dict[str, list[MetricPoint]] = {}
        ordered = query.order_by(_points.step_name, _points.name, _points.step)
        for step, epoch, name, value in self.connection.execute(ordered):
            point = MetricPoint(step=step, epoch=epoch, name=name, value=value)
            series.setdefault(name, []).append(point)
        return series

    def series(self, job_id: str) -> dict[str, list[dict[str, Any]]]:
        """The series of a job as documents: ``{name: [{step, epoch, value}…]}``, in the order of steps.

        Made for very many points: nothing is built that is not answered.
        """
        query = select(_points.name, _points.step, _points.epoch, _points.value)
        query = query.where(_points.job_id == job_id)
        series: dict[str, list[dict[str, Any]]] = {}
        ordered = query.order_by(_points.step_name, _points.name, _points.step)
        found = self.connection.execute(ordered)
        assert found.cursor is not None
        for name, step, epoch, value in found.cursor.fetchall():  # as the driver has them: half of the time
            point = {"step": step, "epoch": epoch, "value": value}
            if name in series:
                series[name].append(point)
            else:
                series[name] = [point]
        return series

    def tail(self, job_id: str, name: str) -> int:
        """How many bytes of a file of the job have been read; 0 at first."""
        query = select(_tails.offset).where(_tails.job_id == job_id, _tails.name == name)
        return int(self.connection.execute(query).scalar() or 0)

    def checkpoints(self, job_id: str) -> list[CheckpointRow]:
        """The checkpoints of a job, the newest step first."""
        query = select(schema.checkpoints).where(_checkpoints.job_id == job_id)
        ordered = query.order_by(_checkpoints.step.desc(), _checkpoints.created_at.desc())
        return [rows.checkpoint(row) for row in self.connection.execute(ordered)]

    def checkpoint(self, job_id: str, checkpoint_id: str) -> CheckpointRow | None:
        """A checkpoint of a job."""
        query = select(schema.checkpoints)
        query = query.where(_checkpoints.job_id == job_id, _checkpoints.id == checkpoint_id)
        found = self.connection.execute(query).first()
        return rows.checkpoint(found) if found else None

    def pin_requests(self) -> list[CheckpointRow]:
        """Checkpoints that are to be pinned and are not yet, or are pinned and are not to be any more."""
        asked, pinned = _checkpoints.pin_requested_at, _checkpoints.pinned_at
        query = select(schema.checkpoints).where(asked.is_(None) != pinned.is_(None))
        return [rows.checkpoint(row) for row in self.connection.execute(query.order_by(asked))]

    def token_by_digest(self, digest: str) -> Token | None:
        """The access token with this digest, revoked and expired ones too."""
        found = self.connection.execute(select(schema.tokens).where(_tokens.digest == digest)).first()
        return rows.token(found) if found else None

    def tokens(self) -> list[Token]:
        """All access tokens, the newest first."""
        query = select(schema.tokens).order_by(_tokens.created_at.desc(), _tokens.id)
        return [rows.token(row) for row in self.connection.execute(query)]

    def secrets(self, workspace: str | None) -> Sequence[SecretRow]:
        """What is known of the secrets of a workspace (None: of all), by name."""
        query = select(schema.secrets).order_by(_secrets.workspace, _secrets.name)
        if workspace is not None:
            query = query.where(_secrets.workspace == workspace)
        return [rows.secret(row) for row in self.connection.execute(query)]

    def secret(self, workspace: str, name: str) -> SecretRow | None:
        """What is known of one secret."""
        query = select(schema.secrets).where(_secrets.workspace == workspace, _secrets.name == name)
        found = self.connection.execute(query).first()
        return rows.secret(found) if found else None

    def workspaces(self) -> list[WorkspaceRow]:
        """All workspaces, by name."""
        query = select(schema.workspaces).order_by(schema.workspaces.c.name)
        return [rows.workspace(row) for row in self.connection.execute(query)]

    def workspace(self, name: str) -> WorkspaceRow | None:
        """One workspace."""
        query = select(schema.workspaces).where(schema.workspaces.c.name == name)
        found = self.connection.execute(query).first()
        return rows.workspace(found) if found else None
