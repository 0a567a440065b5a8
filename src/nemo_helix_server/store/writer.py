"""A unit of work that writes: all of it or nothing, and nobody else writes meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Table, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs.model import CheckpointRow, MetricPoint, SecretRow, Token, WorkspaceRow
from nemo_helix_server.store import entities, schema
from nemo_helix_server.store.entities import EntityWriting
from nemo_helix_server.store.tracker_runs import TrackerWriting
from nemo_helix_server.store.writing_jobs import JobWriting
from nemo_runs.counts import counted

_points, _checkpoints, _tokens = schema.metric_points.c, schema.checkpoints.c, schema.tokens.c
_secrets, _workspaces = schema.secrets.c, schema.workspaces.c
_PINS = frozenset({"pin_requested_at", "pin_requested_by", "pinned_at", "pinned_path"})


class StoreWriter(JobWriting, EntityWriting, TrackerWriting):
    """Everything that can be asked of and written to the store."""

    def add_points(self, job_id: str, step_name: str, points: Iterable[MetricPoint]) -> None:
        """Add to the series of a step; a point that is there is replaced."""
        new = [
            {
                "job_id": job_id,
                "step_name": step_name,
                "name": point.name,
                "step": point.step,
                "epoch": point.epoch,
                "value": point.value,
            }
            for point in points
        ]
        if new:
            self._put(schema.metric_points, new, replaced=("epoch", "value"))

    def truncate_points(self, job_id: str, step_name: str, after: int) -> None:
        """Drop every point of a step's series beyond a training step: training continues from there."""
        self.connection.execute(
            delete(schema.metric_points).where(
                _points.job_id == job_id, _points.step_name == step_name, _points.step > after
            )
        )

    def set_tail(self, job_id: str, name: str, offset: int) -> None:
        """Record how many bytes of a file of the job were read, in the unit that stores what they said."""
        self._put(schema.tails, [{"job_id": job_id, "name": name, "offset": offset}], replaced=("offset",))

    def put_checkpoint(self, checkpoint: CheckpointRow) -> None:
        """Record a checkpoint, or what is newly known of it; its pin and requests of one are left alone."""
        values = _columns(schema.checkpoints, checkpoint)
        keys = {"job_id", "id"}
        self._put(schema.checkpoints, [values], replaced=tuple(values.keys() - keys - _PINS))

    def drop_checkpoints(self, job_id: str, keep: Iterable[str]) -> None:
        """Forget checkpoints that are no longer in the job's storage; pinned ones stay, as not present."""
        self.forget_checkpoints(job_id, tuple(keep))

    def request_pin(self, job_id: str, checkpoint_id: str, *, by: str, pin: bool) -> CheckpointRow | None:
        """Ask for a checkpoint to be pinned, or not to be any more."""
        wish = {"pin_requested_at": self.now, "pin_requested_by": by}
        none = dict.fromkeys(wish)
        found = self.checkpoint(job_id, checkpoint_id)
        if found is not None and (found.pin_requested_at is not None) is not pin:
            self._update_checkpoint(job_id, checkpoint_id, wish if pin else none)
        return self.checkpoint(job_id, checkpoint_id)

    def set_pinned(
        self, job_id: str, checkpoint_id: str, path: str | None, problem: str | None = None
    ) -> None:
        """Record where the pinned copy is; None: that there is none.

        With a `problem` the request is withdrawn, because it cannot be met. A checkpoint that is neither
        pinned nor in the job's storage any more is forgotten.
        """
        values: dict[str, Any] = {"pinned_at": self.now if path else None, "pinned_path": path}
        if problem is not None:
            values |= {"problem": problem, "pin_requested_at": None, "pin_requested_by": None}
        self._update_checkpoint(job_id, checkpoint_id, values)
        gone = (_checkpoints.pinned_at.is_(None), _checkpoints.present.is_(False))
        self.connection.execute(
            delete(schema.checkpoints).where(
                _checkpoints.job_id == job_id, _checkpoints.id == checkpoint_id, *gone
            )
        )

    def put_token(self, token: Token) -> None:
        """Record a new access token."""
        self.connection.execute(insert(schema.tokens), _columns(schema.tokens, token))

    def revoke_token(self, token_id: str) -> Token | None:
        """Make a token, named by its id or name, worthless; None when there is none."""
        query = select(_tokens.digest).where(or_(_tokens.id == token_id, _tokens.name == token_id))
        digest = self.connection.execute(query.order_by(_tokens.revoked_at.is_not(None))).scalar()
        if digest is None:
            return None
        unrevoked = (_tokens.digest == digest, _tokens.revoked_at.is_(None))
        self.connection.execute(update(schema.tokens).where(*unrevoked), {"revoked_at": self.now})
        return self.token_by_digest(digest)

    def touch_token(self, token_id: str) -> None:
        """Record that a token was used now."""
        self.connection.execute(
            update(schema.tokens).where(_tokens.id == token_id), {"last_used_at": self.now}
        )

    def put_secret(self, secret: SecretRow) -> None:
        """Record a secret, or that it was changed."""
        values = _columns(schema.secrets, secret)
        self._put(schema.secrets, [values], replaced=("description", "updated_at"))

    def remove_secret(self, workspace: str, name: str) -> bool:
        """Forget a secret; False when there is none."""
        here = (_secrets.workspace == workspace, _secrets.name == name)
        return self.connection.execute(delete(schema.secrets).where(*here)).rowcount > 0

    def prove(self) -> None:
        """Write something that changes nothing, as proof that it can be done."""
        same = {"created_at": _workspaces.created_at}
        self.connection.execute(update(schema.workspaces).where(_workspaces.name == "default").values(same))

    def put_workspace(self, workspace: WorkspaceRow) -> bool:
        """Make a workspace; False when it is there already."""
        if self.workspace(workspace.name) is not None:
            return False
        self.connection.execute(insert(schema.workspaces), _columns(schema.workspaces, workspace))
        return True

    def remove_workspace(self, name: str) -> bool:
        """Remove a workspace; False: there is none. Raises `StateConflictError` while it has jobs or
        models.
        """
        query = select(func.count()).select_from(schema.jobs).where(schema.jobs.c.workspace == name)
        count = self.connection.execute(query).scalar_one()
        if count:
            raise StateConflictError(
                f"workspace {name} has {counted(count, 'job')}; delete first what it has"
            )
        models = self.entities(entities.MODEL, name, limit=1)[1]
        if models:
            raise StateConflictError(
                f"workspace {name} has {counted(models, 'model')}; delete first what it has"
            )
        self.connection.execute(delete(entities.table).where(entities.table.c.workspace == name))
        self.connection.execute(delete(schema.secrets).where(_secrets.workspace == name))
        return self.connection.execute(delete(schema.workspaces).where(_workspaces.name == name)).rowcount > 0

    def _update_checkpoint(self, job_id: str, checkpoint_id: str, values: dict[str, Any]) -> None:
        here = (_checkpoints.job_id == job_id, _checkpoints.id == checkpoint_id)
        self.connection.execute(update(schema.checkpoints).where(*here), values)

    def _put(self, table: Table, values: list[dict[str, Any]], replaced: tuple[str, ...]) -> None:
        """Insert rows; where one with the same key is there, give it the new values."""
        keys = [column.name for column in table.primary_key]
        dialect = sqlite if self.connection.dialect.name == "sqlite" else postgresql
        statement = dialect.insert(table)
        new = {name: statement.excluded[name] for name in replaced}
        self.connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=new), values)


def _columns(table: Table, value: Any) -> dict[str, Any]:
    return {column.name: getattr(value, column.name) for column in table.c}
