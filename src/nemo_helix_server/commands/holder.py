"""Who uses a data directory: a lock that ends with its process, and a file that says where the service is."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.errors import ServerError
from nemo_helix_server.storage import data_origin
from nemo_runs import file_locks
from nemo_runs.durable import files
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees

LOCK = "service.lock"
RECORD = "service.json"


class DataDirectoryError(ServerError):
    """The data directory cannot be used; the message says why and what would work."""


@dataclass(frozen=True, slots=True)
class ServiceHolder:
    """The service that uses a data directory, as it described itself."""

    identity: trees.ProcessIdentity
    base_url: str
    started_at: str

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as can be seen from here."""
        return trees.liveness(self.identity) is not trees.Liveness.DEAD


def prepare(folder: Path) -> Path:
    """Make the data directory, for its owner only; raises `DataDirectoryError`."""
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise DataDirectoryError(
                f"the data directory {folder} belongs to another user; give --data-dir one of yours"
            )
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise DataDirectoryError(
            f"the data directory {folder} cannot be used: {error.strerror}; --data-dir names another"
        ) from error
    return folder


def lock(folder: Path) -> int:
    """Take the data directory for this process; raises `DataDirectoryError` naming who has it."""
    try:
        descriptor = file_locks.acquire(folder / LOCK, wait=False)
    except OSError as error:
        raise DataDirectoryError(f"{folder / LOCK} cannot be locked: {error.strerror}") from error
    if descriptor is None:
        found = read(folder)
        who = (
            f"the service of process {found.identity.pid} ({found.base_url})" if found else "another service"
        )
        raise DataDirectoryError(
            f"{who} already uses the data directory {folder}; stop it, or give --data-dir another one"
        )
    return descriptor


def write(folder: Path, base_url: str, started_at: str) -> None:
    """Say where the service of this process is."""
    record = {**trees.identify().to_json(), "base_url": base_url, "started_at": started_at}
    files.replace_file(folder / RECORD, json.dumps(record, indent=2).encode() + b"\n", mode=0o600)


def read(folder: Path) -> ServiceHolder | None:
    """The service that described itself last, alive or not; `None` when there is no such record.

    What lies in a copy of a data directory describes the service of the original.
    """
    try:
        if data_origin.copied_from(folder) is not None:
            return None
        value: dict[str, Any] = json.loads((folder / RECORD).read_bytes())
        identity = trees.ProcessIdentity.from_json(value)
        return ServiceHolder(identity, str(value["base_url"]), str(value["started_at"]))
    except (OSError, ValueError, KeyError, TypeError, RunsError):
        return None


def remove(folder: Path) -> None:
    """Take the record back, at an orderly end."""
    (folder / RECORD).unlink(missing_ok=True)
