"""Secrets: values are files that only the service's user can read, everything else about them is rows.

A value is read when a step starts, goes into that step's environment, and is in no record, log or answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_helix_plugin.jobs import names
from nemo_helix_server.errors import (
    InvalidError,
    NoSpaceError,
    StateConflictError,
    UnknownNameError,
    unwritable,
)
from nemo_helix_server.jobs.model import Caller, SecretRow
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import Clock, wire
from nemo_runs.durable import files

LARGEST_VALUE = 64 * 1024
_FOLDER = "secrets"


def value_path(data_dir: Path, workspace: str, name: str) -> Path:
    """The file with a secret's value; raises `InvalidError` for names that no secret can have."""
    for part in (workspace, name):
        problem = names.problem_with(part)
        if problem:
            raise InvalidError(problem)
    return data_dir / _FOLDER / workspace / name


@dataclass(frozen=True, slots=True)
class SecretStore:
    """Writes and lists secrets."""

    store: JobStore
    data_dir: Path
    clock: Clock
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    """Held from the look at what there is until value and row are written: they belong together."""

    def create(
        self, caller: Caller, workspace: str, name: str, value: str, description: str | None
    ) -> dict[str, Any]:
        """Make a secret; raises `StateConflictError` when there is one of that name."""
        now = self.clock.now()
        record = SecretRow(
            workspace=workspace,
            name=name,
            description=description,
            created_by=caller.name,
            created_at=now,
            updated_at=now,
        )
        with self._one_at_a_time:
            with self.store.read() as reader:
                if reader.workspaces.find(workspace) is None:
                    raise UnknownNameError(f"there is no workspace '{workspace}'")
                if reader.secrets.find(workspace, name) is not None:
                    raise StateConflictError(
                        f"there is a secret '{name}' already; `nemo secrets update` changes its value"
                    )
            self._write_value(workspace, name, value)
            with self.store.write() as writer:
                writer.secrets.put(record)
        return shown(record)

    def update(self, workspace: str, name: str, value: str) -> dict[str, Any]:
        """Change a secret's value; steps that run keep the old one."""
        with self._one_at_a_time:
            known = self._known(workspace, name)
            self._write_value(workspace, name, value)
            record = SecretRow(
                workspace=workspace,
                name=name,
                description=known.description,
                created_by=known.created_by,
                created_at=known.created_at,
                updated_at=self.clock.now(),
            )
            with self.store.write() as writer:
                writer.secrets.put(record)
        return shown(record)

    def all(self, workspace: str) -> list[dict[str, Any]]:
        """What may be known of a workspace's secrets."""
        with self.store.read() as reader:
            return [
                shown(record)
                for record in reader.secrets.in_workspace(None if workspace == names.ALL else workspace)
            ]

    def get(self, workspace: str, name: str) -> dict[str, Any]:
        """What may be known of one secret."""
        return shown(self._known(workspace, name))

    def delete(self, workspace: str, name: str) -> None:
        """Forget a secret and its value."""
        with self._one_at_a_time:
            self._known(workspace, name)
            # the value first: a crash in between leaves a name without one, and never a value without a name
            value_path(self.data_dir, workspace, name).unlink(missing_ok=True)
            with self.store.write() as writer:
                writer.secrets.remove(workspace, name)

    def _known(self, workspace: str, name: str) -> SecretRow:
        with self.store.read() as reader:
            record = reader.secrets.find(workspace, name)
        if record is None:
            raise UnknownNameError(f"there is no secret '{name}' in the workspace '{workspace}'")
        return record

    def _write_value(self, workspace: str, name: str, value: str) -> None:
        data = value.encode()
        if not data or len(data) > LARGEST_VALUE:
            raise InvalidError(f"a secret's value has 1 to {LARGEST_VALUE} bytes, this one {len(data)}")
        path = value_path(self.data_dir, workspace, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.replace_file(path, data, mode=0o600)
        except files.DiskFullError as error:
            raise NoSpaceError(f"the secret '{name}' could not be written: {error}") from error
        except OSError as error:
            raise unwritable(f"the secret '{name}'", error) from error


def shown(record: SecretRow) -> dict[str, Any]:
    """What may be known of a secret."""
    return {
        "name": record.name,
        "workspace": record.workspace,
        "description": record.description,
        "created_at": wire(record.created_at),
        "updated_at": wire(record.updated_at),
    }
