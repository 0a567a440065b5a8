"""Workspaces: the namespaces of jobs, secrets and filesets, and the boundary of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nemo_helix_server.errors import StateConflictError, UnknownNameError
from nemo_helix_server.jobs.model import WorkspaceRow
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import Clock, wire

DEFAULT = "default"
"""Always there."""


@dataclass(frozen=True, slots=True)
class WorkspaceRepository:
    """Creates and lists workspaces."""

    store: JobStore
    clock: Clock

    def ensure_default(self) -> None:
        """Make the default workspace where it is not there yet."""
        with self.store.write() as writer:
            writer.workspaces.put(WorkspaceRow(name=DEFAULT, description=None, created_at=self.clock.now()))

    def create(self, name: str, description: str | None) -> dict[str, Any]:
        """Make a workspace; raises `StateConflictError` when there is one of that name."""
        record = WorkspaceRow(name=name, description=description, created_at=self.clock.now())
        with self.store.write() as writer:
            if not writer.workspaces.put(record):
                raise StateConflictError(f"there is a workspace '{name}' already")
            return shown(writer, record)

    def all(self, only: str | None) -> list[dict[str, Any]]:
        """All workspaces, or the one that a caller is confined to."""
        with self.store.read() as reader:
            return [
                shown(reader, record) for record in reader.workspaces.all() if only in {None, record.name}
            ]

    def names(self, only: str | None) -> list[str]:
        """The names of all workspaces, or the one that a caller is confined to; costs no look at jobs."""
        with self.store.read() as reader:
            return [record.name for record in reader.workspaces.all() if only in {None, record.name}]

    def get(self, name: str) -> dict[str, Any]:
        """One workspace, with how many jobs it has and what their storage takes."""
        with self.store.read() as reader:
            record = reader.workspaces.find(name)
            if record is None:
                raise UnknownNameError(f"there is no workspace '{name}'; `nemo workspaces list` shows them")
            return shown(reader, record)

    def delete(self, name: str) -> None:
        """Remove an empty workspace."""
        if name == DEFAULT:
            raise StateConflictError(f"the workspace '{DEFAULT}' always stays")
        with self.store.write() as writer:
            if writer.secrets.in_workspace(name):
                raise StateConflictError(f"the workspace '{name}' has secrets; delete them first")
            if not writer.workspaces.remove(name):
                raise UnknownNameError(f"there is no workspace '{name}'; `nemo workspaces list` shows them")


def shown(reader: StoreReader, record: WorkspaceRow) -> dict[str, Any]:
    """A workspace as it is answered."""
    return {
        "name": record.name,
        "description": record.description,
        "jobs": sum(reader.jobs.counts(record.name).values()),
        "storage_bytes": reader.jobs.storage_bytes(record.name),
        "created_at": wire(record.created_at),
    }
