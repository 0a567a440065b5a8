"""Removing what starts and deleted jobs have left on clusters, once their hosts answer again.

That is tried whenever a host is looked at, and on a schedule, since a service that has just begun may have no
job for which a host would be looked at. The pauses between two attempts grow for each host.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from nemo_helix_server.executors.base import ExecutorError
from nemo_helix_server.executors.slurm import submissions
from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnections
from nemo_helix_server.executors.slurm.starts import ClusterStarts
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.executors.slurm.submissions import RunList
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import GrowingPause

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 1800.0
"""Seconds until a host is asked again on which something could not be removed; twice as many each time."""
_LOOK = 30.0
"""Seconds between two looks at whether a host is due."""
_Host = str | None


class Tidying:
    """What is still to be removed, and when each host is asked for it; safe for several threads."""

    def __init__(
        self,
        storage: ClusterRunStorage,
        connections: ClusterConnections,
        starts: ClusterStarts,
        untidied: RunList,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``untidied``: the starts for which something is still to be removed. ``now`` is in seconds."""
        self._storage = storage
        self._connections = connections
        self._starts = starts
        self._untidied = untidied
        self._now = now
        self._pauses: dict[_Host, GrowingPause] = {}
        self._busy: set[_Host] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to ask hosts on the schedule, in a thread."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tidying", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Begin nothing more; what is under way may take as long as its host."""
        self._ended.set()

    def on(self, hosts: Collection[_Host]) -> None:
        """Remove what can be removed through these hosts, where they are due."""
        ready = self._begin(hosts)
        left = set(ready)
        try:
            if not ready:
                return
            failed = set() if self._storage.remove_leftovers(ready) else set(ready)
            for address, runs in self._untidied_on(set(ready) - failed).items():
                if not self._tidy(address, runs):
                    failed.add(address.host)
            left = failed
        finally:
            self._done(ready, left)

    def everywhere(self) -> None:
        """The same through every host that leads to something that is left."""
        hosts = {address.host for address in self._storage.ways_to_leftovers()}
        for run in self._untidied.runs():
            with contextlib.suppress(ExecutorError):
                hosts.add(self._storage.address(run).host)
        for host in sorted(hosts, key=str):  # one that does not answer must not hold up the others' pauses
            if self._ended.is_set():
                return
            self.on([host])

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.everywhere()
            except Exception:  # noqa: BLE001 - the outermost edge of the thread: it is tried again
                _LOG.exception("what is left on clusters cannot be removed now, and is tried again")
            self._ended.wait(_LOOK)

    def _begin(self, hosts: Collection[_Host]) -> list[_Host]:
        """Those that are due, and that nobody asks just now."""
        with self._lock:
            ready = [host for host in hosts if host not in self._busy and self._is_due(host)]
            self._busy.update(ready)
            return ready

    def _is_due(self, host: _Host) -> bool:
        pause = self._pauses.get(host)
        return pause is None or pause.is_due(self._now())

    def _done(self, hosts: Collection[_Host], failed: Collection[_Host]) -> None:
        with self._lock:
            self._busy.difference_update(hosts)
            for host in hosts:
                if host not in failed:
                    self._pauses.pop(host, None)
                    continue
                known = self._pauses.setdefault(host, GrowingPause(_FIRST_PAUSE, _LONGEST_PAUSE))
                known.fail(self._now())

    def _untidied_on(self, hosts: Collection[_Host]) -> dict[ClusterAddress, list[StepRun]]:
        found: dict[ClusterAddress, list[StepRun]] = {}
        for run in self._untidied.runs():
            with contextlib.suppress(ExecutorError):  # its profile is gone, and it was never handed over
                address = self._storage.address(run)
                if address.host in hosts:
                    found.setdefault(address, []).append(run)
        return found

    def _tidy(self, address: ClusterAddress, runs: list[StepRun]) -> bool:
        if not self._starts.tidy(self._connections.of(address), runs):
            return False
        for run in runs:
            folder = self._storage.jobs.run_folder(run)
            if (known := submissions.read(folder)) is not None and known.job is not None:
                replace(known, tidied=True).save(folder)
        return True
