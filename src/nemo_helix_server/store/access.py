"""Who may come in and what is kept for them: access tokens, secrets and workspaces."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs.model import SecretRow, Token, WorkspaceRow
from nemo_helix_server.store import entities, rows, schema
from nemo_helix_server.store.entities import EntityReader
from nemo_helix_server.store.session import StorePart, StoreSession
from nemo_runs.counts import counted

_tokens, _secrets, _workspaces = schema.tokens.c, schema.secrets.c, schema.workspaces.c

_WORKSPACE = select(schema.workspaces).where(_workspaces.name == bindparam("name"))


class TokenReader(StorePart):
    """Questions about access tokens; None means that there is no such token."""

    def by_digest(self, digest: str) -> Token | None:
        """The access token with this digest, revoked and expired ones too."""
        found = self.connection.execute(select(schema.tokens).where(_tokens.digest == digest)).first()
        return rows.token(found) if found else None

    def all(self) -> list[Token]:
        """All access tokens, the newest first."""
        query = select(schema.tokens).order_by(_tokens.created_at.desc(), _tokens.id)
        return [rows.token(row) for row in self.connection.execute(query)]


class TokenWriter(TokenReader):
    """Recording and revoking access tokens."""

    def put(self, token: Token) -> None:
        """Record a new access token."""
        self.connection.execute(insert(schema.tokens), rows.columns(schema.tokens, token))

    def revoke(self, token_id: str) -> Token | None:
        """Make a token, named by its id or name, worthless; None when there is none."""
        query = select(_tokens.digest).where(or_(_tokens.id == token_id, _tokens.name == token_id))
        digest = self.connection.execute(query.order_by(_tokens.revoked_at.is_not(None))).scalar()
        if digest is None:
            return None
        unrevoked = (_tokens.digest == digest, _tokens.revoked_at.is_(None))
        self.connection.execute(update(schema.tokens).where(*unrevoked), {"revoked_at": self.now})
        return self.by_digest(digest)

    def touch(self, token_id: str) -> None:
        """Record that a token was used now."""
        self.connection.execute(
            update(schema.tokens).where(_tokens.id == token_id), {"last_used_at": self.now}
        )


class SecretReader(StorePart):
    """Questions about secrets, never about their values; None means that there is no such secret."""

    def in_workspace(self, workspace: str | None) -> Sequence[SecretRow]:
        """What is known of the secrets of a workspace (None: of all), by name."""
        query = select(schema.secrets).order_by(_secrets.workspace, _secrets.name)
        if workspace is not None:
            query = query.where(_secrets.workspace == workspace)
        return [rows.secret(row) for row in self.connection.execute(query)]

    def find(self, workspace: str, name: str) -> SecretRow | None:
        """What is known of one secret."""
        query = select(schema.secrets).where(_secrets.workspace == workspace, _secrets.name == name)
        found = self.connection.execute(query).first()
        return rows.secret(found) if found else None


class SecretWriter(SecretReader):
    """Recording and forgetting secrets."""

    def put(self, secret: SecretRow) -> None:
        """Record a secret, or that it was changed."""
        values = rows.columns(schema.secrets, secret)
        rows.put(self.connection, schema.secrets, [values], replaced=("description", "updated_at"))

    def remove(self, workspace: str, name: str) -> bool:
        """Forget a secret; False when there is none."""
        here = (_secrets.workspace == workspace, _secrets.name == name)
        return self.connection.execute(delete(schema.secrets).where(*here)).rowcount > 0


class WorkspaceReader(StorePart):
    """Questions about workspaces; None means that there is no such workspace."""

    def all(self) -> list[WorkspaceRow]:
        """All workspaces, by name."""
        query = select(schema.workspaces).order_by(schema.workspaces.c.name)
        return [rows.workspace(row) for row in self.connection.execute(query)]

    def find(self, name: str) -> WorkspaceRow | None:
        """One workspace."""
        found = self.connection.execute(_WORKSPACE, {"name": name}).first()
        return rows.workspace(found) if found else None


class WorkspaceWriter(WorkspaceReader):
    """Making and removing workspaces."""

    def __init__(self, session: StoreSession, entities_: EntityReader) -> None:
        super().__init__(session)
        self._entities = entities_

    def put(self, workspace: WorkspaceRow) -> bool:
        """Make a workspace; False when it is there already."""
        if self.find(workspace.name) is not None:
            return False
        self.connection.execute(insert(schema.workspaces), rows.columns(schema.workspaces, workspace))
        return True

    def remove(self, name: str) -> bool:
        """Remove a workspace; False: there is none. Raises `StateConflictError` while it has jobs or
        models.
        """
        query = select(func.count()).select_from(schema.jobs).where(schema.jobs.c.workspace == name)
        count = self.connection.execute(query).scalar_one()
        if count:
            raise StateConflictError(
                f"workspace {name} has {counted(count, 'job')}; delete first what it has"
            )
        models = self._entities.page(entities.MODEL, name, limit=1)[1]
        if models:
            raise StateConflictError(
                f"workspace {name} has {counted(models, 'model')}; delete first what it has"
            )
        self.connection.execute(delete(entities.table).where(entities.table.c.workspace == name))
        self.connection.execute(delete(schema.secrets).where(_secrets.workspace == name))
        return self.connection.execute(delete(schema.workspaces).where(_workspaces.name == name)).rowcount > 0

    def prove(self) -> None:
        """Write something that changes nothing, as proof that it can be done."""
        same = {"created_at": _workspaces.created_at}
        self.connection.execute(update(schema.workspaces).where(_workspaces.name == "default").values(same))
