"""Clusters that cannot be asked as they were when a job was handed over: other ways, and what stays there.

A profile may name another host or interpreter by now, and a cluster may be away for good. What is to be
removed from one that cannot be reached is written down, a file for each job's folder, and removed when it
answers again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    UnusableClusterError,
)
from nemo_runs.durable.files import replace_file
from nemo_slurm.errors import NotConnectedError, SlurmError

_LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Connects(Protocol):
    """Gives the connections to clusters."""

    def of(self, address: ClusterAddress) -> ClusterConnection:
        """That of one."""
        ...


def ways(address: ClusterAddress, present: Iterable[ClusterAddress]) -> list[ClusterAddress]:
    """How a storage root can be reached: as profiles name it now, first those of the same host."""
    same_root = [one for one in present if one.root == address.root]
    near = [one for one in same_root if one.host == address.host]
    return list(dict.fromkeys([*near, address, *same_root]))


def ask_any_way(
    connections: Connects,
    address: ClusterAddress,
    present: Iterable[ClusterAddress],
    folder: PurePosixPath,
    ask: Callable[[ClusterConnection], Answer],
) -> Answer:
    """Ask a cluster by the first way that works; another host counts only where it has the folder.

    Raises what the first way failed with when none does.
    """
    failed: SlurmError | None = None
    for way in ways(address, present):
        connection = connections.of(way)
        try:
            if way.host == address.host or connection.host.exists(str(folder)):
                return ask(connection)
        except (NotConnectedError, UnusableClusterError) as error:
            failed = failed or error
    assert failed is not None, "the host that is known is asked"
    raise failed


@dataclass(frozen=True, slots=True)
class Leftover:
    """The folder of a deleted job on a cluster that could not be asked."""

    address: ClusterAddress
    folder: PurePosixPath

    @property
    def shown(self) -> str:
        """For people: host and folder."""
        return f"{self.address.host or 'this machine'}:{self.folder}"


class Leftovers:
    """Those of a service, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, leftover: Leftover, why: Exception) -> None:
        """Write one down durably, and say where it lies."""
        _LOG.warning(
            "a deleted job may have left files, and a job in the queue, on a cluster that cannot be asked: "
            "%s (%s); they are removed when it answers again",
            leftover.shown,
            why,
        )
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        value = {"address": leftover.address.to_json(), "folder": str(leftover.folder)}
        replace_file(self._path(leftover), json.dumps(value).encode() + b"\n", mode=0o600)

    def __iter__(self) -> Iterator[Leftover]:
        """Each of them; one that cannot be read is left alone."""
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                value = json.loads(path.read_bytes())
                yield Leftover(ClusterAddress.from_json(value["address"]), PurePosixPath(value["folder"]))

    def drop(self, leftover: Leftover) -> None:
        """It is removed."""
        self._path(leftover).unlink(missing_ok=True)

    def _path(self, leftover: Leftover) -> Path:
        digest = hashlib.sha256(leftover.shown.encode()).hexdigest()
        return self._folder / f"{digest[:32]}.json"
