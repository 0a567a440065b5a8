"""Registering models and telling which there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.jobs import names
from nemo_helix_server.errors import StateConflictError, UnknownNameError
from nemo_helix_server.files.filesets import Filesets
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.jobs.pages import page_of
from nemo_helix_server.store import entities
from nemo_helix_server.store.entities import Entity
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import Clock, wire

_KIND = entities.MODEL
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRegistry:
    """The models of all workspaces."""

    store: JobStore
    filesets: Filesets
    clock: Clock

    def create(self, caller: Caller, workspace: str, name: str, document: Document) -> tuple[Document, bool]:
        """Register a model; the same once more, or once more by the same job, is fine and not new."""
        fileset = document["fileset"]
        if not self.filesets.exists(workspace, fileset):
            raise UnknownNameError(
                f"there is no fileset '{fileset}' in workspace '{workspace}'; upload the weights first"
            )
        now = self.clock.now()
        record = Entity(
            kind=_KIND,
            workspace=workspace,
            name=name,
            document=document,
            created_by=caller.name,
            created_at=now,
            updated_at=now,
        )
        with self.store.write() as unit:
            if unit.entities.add(record):
                return shown(record), True
            there = unit.entities.find(_KIND, workspace, name)
            job = document.get("created_by_job")
            if there is None or (
                there.document != document and (not job or there.document.get("created_by_job") != job)
            ):
                raise StateConflictError(f"there is a model '{name}' already in workspace {workspace}")
            unit.entities.change(_KIND, workspace, name, document, now)
            return shown(unit.entities.find(_KIND, workspace, name) or there), False

    def page(self, workspace: str, number: int, size: int) -> Document:
        """A page of a workspace's models, the newest first."""
        only = None if workspace == names.ALL else workspace
        with self.store.read() as unit:
            found, total = unit.entities.page(_KIND, only, offset=(number - 1) * size, limit=size)
        return page_of([shown(one) for one in found], number=number, size=size, total=total)

    def find(self, workspace: str, name: str) -> Document | None:
        """One model, if there is one of that name."""
        with self.store.read() as unit:
            found = unit.entities.find(_KIND, workspace, name)
        return shown(found) if found else None

    def get(self, workspace: str, name: str) -> Document:
        """One model; raises `UnknownNameError`."""
        found = self.find(workspace, name)
        if found is None:
            raise UnknownNameError(
                f"there is no model '{name}' in workspace '{workspace}'; `nemo models list` shows them"
            )
        return found

    def delete(self, workspace: str, name: str) -> None:
        """Forget a model; its fileset stays."""
        with self.store.write() as unit:
            if not unit.entities.remove(_KIND, workspace, name):
                raise UnknownNameError(f"there is no model '{name}' in workspace '{workspace}'")


def shown(record: Entity) -> Document:
    """A model as it is answered."""
    return {
        **record.document,
        "name": record.name,
        "workspace": record.workspace,
        "created_by": record.created_by,
        "created_at": wire(record.created_at),
        "updated_at": wire(record.updated_at),
    }
