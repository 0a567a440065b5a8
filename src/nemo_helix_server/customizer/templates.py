"""Saved specs, which are submitted under another name later; validated only then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.customization.requests import CreateJobTemplateRequest, UpdateJobTemplateRequest
from nemo_helix_plugin.jobs import names
from nemo_helix_server.errors import StateConflictError, UnknownNameError
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.jobs.pages import page_of
from nemo_helix_server.store import entities
from nemo_helix_server.store.entities import Entity
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import Clock, wire

_KIND = entities.TEMPLATE
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TemplateRepository:
    """The templates of all workspaces."""

    store: JobStore
    clock: Clock

    def create(self, caller: Caller, workspace: str, body: CreateJobTemplateRequest) -> Document:
        """Save one; raises `StateConflictError` when there is one of that name."""
        now = self.clock.now()
        record = Entity(
            kind=_KIND,
            workspace=workspace,
            name=body.name,
            document=body.model_dump(mode="json", exclude={"name"}),
            created_by=caller.name,
            created_at=now,
            updated_at=now,
        )
        with self.store.write() as unit:
            if unit.workspaces.find(workspace) is None:
                raise UnknownNameError(f"there is no workspace '{workspace}'")
            if not unit.entities.add(record):
                raise StateConflictError(
                    f"there is a job template '{body.name}' already in workspace {workspace}"
                )
        return _shown(record)

    def page(self, workspace: str, number: int, size: int) -> Document:
        """A page of a workspace's templates, the newest first."""
        only = None if workspace == names.ALL else workspace
        with self.store.read() as unit:
            found, total = unit.entities.page(_KIND, only, offset=(number - 1) * size, limit=size)
        return page_of([_shown(one) for one in found], number=number, size=size, total=total)

    def get(self, workspace: str, name: str) -> Document:
        """One template."""
        with self.store.read() as unit:
            return _shown(_known(unit.entities.find(_KIND, workspace, name), name))

    def update(self, workspace: str, name: str, body: UpdateJobTemplateRequest) -> Document:
        """Change what was given."""
        with self.store.write() as unit:
            before = _known(unit.entities.find(_KIND, workspace, name), name)
            changed = {**before.document, **body.model_dump(mode="json", exclude_none=True)}
            unit.entities.change(_KIND, workspace, name, changed, self.clock.now())
            return _shown(_known(unit.entities.find(_KIND, workspace, name), name))

    def delete(self, workspace: str, name: str) -> None:
        """Forget one."""
        with self.store.write() as unit:
            if not unit.entities.remove(_KIND, workspace, name):
                _known(None, name)


def _known(found: Entity | None, name: str) -> Entity:
    if found is None:
        raise UnknownNameError(f"there is no job template '{name}' in this workspace")
    return found


def _shown(record: Entity) -> Document:
    return {
        **record.document,
        "name": record.name,
        "workspace": record.workspace,
        "created_by": record.created_by,
        "created_at": wire(record.created_at),
        "updated_at": wire(record.updated_at),
    }
