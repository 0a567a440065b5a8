"""Named things in a workspace other than jobs: trained models, and templates of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    String,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from nemo_helix_server.store import schema
from nemo_helix_server.store.session import StorePart

MODEL, TEMPLATE = "model", "job-template"

table = Table(
    "entities",
    schema.metadata,
    Column("kind", String(32), primary_key=True),
    Column("workspace", String(255), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("document", schema.Document, nullable=False),
    Column("created_by", String(255), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_entities_by_creation", "kind", "workspace", "created_at", "name"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One of them; what it is, is its document."""

    kind: str
    workspace: str
    name: str
    document: dict[str, Any]
    created_by: str
    created_at: int
    updated_at: int


class EntityReader(StorePart):
    """Questions about entities."""

    def find(self, kind: str, workspace: str, name: str) -> Entity | None:
        """One by its name."""
        found = self.connection.execute(select(table).where(*_here(kind, workspace, name))).first()
        return Entity(**found._asdict()) if found else None

    def page(
        self, kind: str, workspace: str | None, *, offset: int = 0, limit: int | None = None
    ) -> tuple[Sequence[Entity], int]:
        """Those of a workspace (None: of all), the newest first, and how many there are."""
        wanted = [table.c.kind == kind, *([table.c.workspace == workspace] if workspace else [])]
        total = self.connection.execute(select(func.count()).select_from(table).where(*wanted)).scalar_one()
        query = select(table).where(*wanted).order_by(table.c.created_at.desc(), table.c.name)
        rows = self.connection.execute(query.offset(offset).limit(limit))
        return [Entity(**row._asdict()) for row in rows], total


class EntityWriter(EntityReader):
    """Making, changing and removing them."""

    def add(self, entity: Entity) -> bool:
        """Make one; False when there is one of that name."""
        if self.find(entity.kind, entity.workspace, entity.name) is not None:
            return False
        values = {column.name: getattr(entity, column.name) for column in table.c}
        try:
            with self.connection.begin_nested():
                self.connection.execute(insert(table), values)
        except IntegrityError:
            return False
        return True

    def change(self, kind: str, workspace: str, name: str, document: dict[str, Any], now: int) -> bool:
        """Give one another document; False when there is none of that name."""
        values = {"document": document, "updated_at": now}
        return (
            self.connection.execute(update(table).where(*_here(kind, workspace, name)), values).rowcount > 0
        )

    def remove(self, kind: str, workspace: str, name: str) -> bool:
        """Forget one; False when there is none of that name."""
        return self.connection.execute(delete(table).where(*_here(kind, workspace, name))).rowcount > 0


def _here(kind: str, workspace: str, name: str) -> tuple[Any, ...]:
    return table.c.kind == kind, table.c.workspace == workspace, table.c.name == name
