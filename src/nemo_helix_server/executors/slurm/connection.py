"""One cluster as a service sees it: its scheduler, its shared storage, and our program on its host."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.on_cluster.folders import ClusterFolder
from nemo_helix_server.executors.slurm.on_cluster.holders import ServiceMark
from nemo_helix_server.executors.slurm.ownership import NotOurJobError, require_ours
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_slurm.channel import reason_line
from nemo_slurm.cluster import Cluster
from nemo_slurm.errors import CommandFailedError, SlurmError, StorageFullError
from nemo_slurm.hosts import Completed, Host
from nemo_slurm.remote_script import remote_script
from nemo_slurm.ssh import SshHost, host_of

OLDEST_PYTHON = (3, 11)
_SETUP_IS_OVER = "baton: setup lines are over\n"
"""What the script says before it starts the interpreter."""
_CODE_SECONDS = 3600.0
"""How often it is looked whether all our sources are there: jobs that wait in the queue need them."""


class UnusableClusterError(SlurmError):
    """The cluster cannot be used as the profile describes it; the message says what to change."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """What is needed to reach a cluster's files and scheduler again, whatever becomes of its profile."""

    host: str | None
    root: str
    python: str
    setup: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: SlurmSettings) -> ClusterAddress:
        """That of a profile."""
        return cls(settings.host, str(settings.root), settings.python, settings.setup)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ClusterAddress:
        """Read what `to_json` wrote."""
        return cls(value["host"], value["root"], value["python"], tuple(value["setup"]))

    def to_json(self) -> dict[str, Any]:
        """The fields as a JSON object."""
        return asdict(self)

    @property
    def shown(self) -> str:
        """For people: host and folder."""
        return f"{self.host or 'this machine'}:{self.root}"


class PreparedFolders(NamedTuple):
    """What was found where folders were made."""

    queued: str | None = None
    """The number of the job that another allocation has queued for the run."""
    begun: bool = False
    """Whether another allocation, or an earlier call, may have queued the run."""
    start: int = 0
    """The number of the run among the starts of its job, in the order in which they were ordered."""


class ClusterConnection:
    """One cluster; safe for several threads."""

    def __init__(
        self,
        address: ClusterAddress,
        bundle: ClusterSources,
        *,
        host: Host | None = None,
        cluster: Cluster | None = None,
        service: ServiceMark | None = None,
    ) -> None:
        """``service``: who asks; folders of other services' jobs are not touched for it."""
        self.address = address
        self.host = host or host_of(address.host)
        self.cluster = cluster or Cluster(self.host)
        self.folder = ClusterFolder(PurePosixPath(address.root))
        self.service = service
        self._bundle = bundle
        self._code: PurePosixPath | None = None
        self._code_until = 0.0
        """By the monotonic clock: after that it is looked again whether the sources are there."""
        self._needs_setup = bool(address.setup) and not address.python.startswith("/")
        self._lock = threading.Lock()

    def expect_change(self) -> None:
        """A person asks about the cluster: see `nemo_slurm.ssh.SshHost.expect_change`."""
        if isinstance(self.host, SshHost):
            self.host.expect_change()

    @property
    def code_folder(self) -> PurePosixPath:
        """Where our sources lie there, or will."""
        return self.folder.code(self._bundle.digest)

    def code(self) -> PurePosixPath:
        """The folder of our sources on the cluster, brought there when it is not there yet."""
        with self._lock:
            if self._code is None or time.monotonic() >= self._code_until:
                self._code = self._bundle.place(self.host, self.folder)
                self._code_until = time.monotonic() + _CODE_SECONDS
            return self._code

    def ask(self, request: Mapping[str, Any], *, timeout: float = 120) -> dict[str, Any]:
        """Have one request answered on the cluster's host, within ``timeout`` seconds.

        Setup lines are run where the interpreter is not found, or does not run, without them. Sources that
        have gone there, since sites purge files, are brought again.
        Raises `UnusableClusterError` when our program cannot run there, `nemo_slurm.errors.NotReachableError`
        when there is no answer, `StorageFullError` for what does not fit, `NotOurJobError` for a job of
        another service and `CommandFailedError` for what else cannot be done.
        """
        request = self.signed(request)
        done, answer = self._asked(request, timeout)
        if answer is None:
            self._code_until = 0.0
            self._needs_setup = bool(self.address.setup)
            done, answer = self._asked(request, timeout)
        if answer is None:
            raise self._explained(done.status, done.stderr)
        if answer.get("full"):
            raise StorageFullError(answer["error"], where=self.host.label, path=self.address.root)
        if answer.get("other_service"):
            raise NotOurJobError(answer["error"])
        if "error" in answer:
            raise CommandFailedError([request["op"]], done.status, answer["error"], where=self.host.label)
        return answer

    def signed(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """A request that says which service asks, see `on_cluster.holders`."""
        if self.service is None:
            return request
        return {**request, "service": list(self.service), "root": self.address.root}

    def _asked(self, request: Mapping[str, Any], timeout: float) -> tuple[Completed, dict[str, Any] | None]:
        """What the host said, and the answer in it; `None`: our program did not come to one."""
        # a start is told about the interpreter that jobs have
        setup = self.address.setup if self._needs_setup or request["op"] == "prepare" else ()
        script = remote_script(
            __package__,
            "ask",
            python=self.address.python,
            code=str(self.code()),
            request=json.dumps(request),
            setup="\n".join(setup),
        )
        done = self.host.run(script, timeout=timeout)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            return done, None
        return done, answer if isinstance(answer, dict) else None

    def look(self, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What is new in the folders of runs, see `nemo_helix_server.executors.slurm.on_cluster.requests`."""
        if not runs:
            return {"now": 0.0, "runs": {}, "others": {}}
        return self.ask({"op": "look", "runs": list(runs)})

    def require_own(self, job: PurePosixPath) -> None:
        """Raise `NotOurJobError` where the folder of a job belongs to another service."""
        self.ask({"op": "may_act", "folder": str(job)})

    def prepare(self, folders: Iterable[PurePosixPath], run: PurePosixPath | None = None) -> PreparedFolders:
        """Make folders for their owner alone; ``run`` is one that an allocation may have queued already.

        Raises `OthersMayWriteError` where others could replace what jobs run.
        """
        self._code_until = 0.0
        # before any of our program runs there: what others could write may be theirs
        require_ours(self.host, [self.folder.root, self.code_folder.parent, self.code_folder])
        request = {"op": "prepare", "folders": [str(folder) for folder in folders], "run": run and str(run)}
        answer = self.ask(request)
        if tuple(answer["python"]) < OLDEST_PYTHON:
            found = ".".join(map(str, answer["python"]))
            raise UnusableClusterError(
                f"{self.address.python} on {self.host.label} is Python {found}, and 3.11 or newer is needed; "
                "name another one by the key python of the profile"
            )
        return PreparedFolders(answer["queued"], bool(answer["begun"]), int(answer["start"]))

    def write(self, path: PurePosixPath, data: bytes) -> None:
        """Write a small file for its owner alone, whole or not at all."""
        self.host.write(str(path), data, mode=0o600)

    def deliver(self, run: PurePosixPath, name: str, data: bytes) -> None:
        """Write a request into the folder of a run that has begun, whether or not the storage is full.

        Raises `StorageFullError` where it is, and the run has reserved no space.
        """
        self.ask({"op": "deliver", "run": str(run), "name": name, "data": data.decode()})

    def _explained(self, status: int, said: str) -> SlurmError:
        _, reached, after = said.partition(_SETUP_IS_OVER)
        if not reached and self.address.setup:
            return UnusableClusterError(
                f"config.setup: its lines end the shell on {self.host.label} with status {status}, before "
                "the interpreter is tried; take out what leaves the shell, such as exit"
            )
        why = f"it said {line!r}" if (line := reason_line(after)) else f"it ended with status {status}"
        return UnusableClusterError(
            f"config.python: {self.address.python} on {self.host.label} cannot run what Baton needs there: "
            f"{why}; name an interpreter of Python 3.11 or newer"
        )


class ClusterConnections:
    """The clusters of a service, one connection each."""

    def __init__(self, bundle: ClusterSources | None = None, service: ServiceMark | None = None) -> None:
        self._bundle = bundle
        self._service = service
        self._known: dict[ClusterAddress, ClusterConnection] = {}
        self._hosts: dict[str | None, Host] = {}
        """One for each name: all that needs a host shares its connection, and its attempts to log in."""
        self._lock = threading.Lock()

    def of(self, address: ClusterAddress) -> ClusterConnection:
        """The connection to a cluster; nothing is connected yet."""
        with self._lock:
            if address not in self._known:
                self._bundle = self._bundle or ClusterSources.of_service()
                if address.host not in self._hosts:
                    self._hosts[address.host] = host_of(address.host)
                host = self._hosts[address.host]
                self._known[address] = ClusterConnection(
                    address, self._bundle, host=host, service=self._service
                )
            return self._known[address]

    def code_folder(self, address: ClusterAddress) -> PurePosixPath:
        """Where our sources lie on a cluster, or will; nobody is asked."""
        return self.of(address).code_folder

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            for host in {id(one.host): one.host for one in self._known.values()}.values():
                host.close()
            self._known.clear()
            self._hosts.clear()
