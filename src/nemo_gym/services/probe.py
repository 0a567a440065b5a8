"""Probing a service for real: its processes, its listening socket, its health path and its list of models."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from nemo_gym.services import ports
from nemo_gym.services.health import Probe, ProbeResult, judge_models
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees
from nemo_runs.processes.trees import Liveness, ProcessIdentity

_PROBE_TIMEOUT = 10.0
"""Seconds; a probe that hangs longer is given up and another one is made."""
_LARGEST_ANSWER = 4 << 20
_LONGEST_REASON = 200
_LOOPBACK = ("127.0.0.1", "localhost")
_LOOPBACK_V4, _LOOPBACK_V6 = ip_address("127.0.0.1"), ip_address("::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where and how a service answers."""

    host: str
    port: int
    health_port: int
    path: str
    """Of the health check."""
    model: str
    """The name that ``/v1/models`` must hold; empty: it is not asked."""
    api_key: str = ""


class RunningService:
    """A started service, found by its first process and by the marker that all its processes carry."""

    def __init__(
        self, pid: int, marker: tuple[str, str], address: Address, *, timeout: float = _PROBE_TIMEOUT
    ) -> None:
        self._pid = pid
        self._marker = marker
        self._address = address
        self._timeout = timeout
        self._probe: _BackgroundProbe | None = None
        self._identity = _identified(pid)

    def alive(self) -> bool:
        """Whether the first process runs."""
        return self._identity is not None and trees.liveness(self._identity) is Liveness.ALIVE

    def probe(self) -> Probe | None:
        """See `nemo_gym.services.health.Watched`. Probes run in threads, so that none can hang us."""
        if self._probe is None:
            self._probe = _BackgroundProbe(self._look)
        outcome = self._probe.outcome(self._timeout)
        if outcome is not None:
            self._probe = None
        return outcome

    def _look(self) -> Probe:
        foreign = self._foreign_listener()
        if foreign is not None:
            return foreign
        address = self._address
        status, _ = _get(address.host, address.health_port, address.path, address.api_key, self._timeout)
        if not 200 <= status < 300:
            return Probe(ProbeResult.NOT_YET, f"{address.path} answers {status}")
        if not address.model:
            return Probe(ProbeResult.HEALTHY)
        status, body = _get(address.host, address.port, "/v1/models", address.api_key, self._timeout)
        if status != 200:
            return Probe(ProbeResult.NOT_YET, f"/v1/models answers {status}")
        return judge_models(address.model, model_names(body))

    def _foreign_listener(self) -> Probe | None:
        """Why the port is not the service's own, or ``None`` when it is."""
        host, port = self._address.host, self._address.port
        if host not in _LOOPBACK:
            return None  # on another node, where its sockets cannot be seen
        here = ports.listeners_here()
        answering = ports.answering(_LOOPBACK_V4, port, here)
        if not answering:
            return Probe(ProbeResult.NOT_YET, f"nobody listens on port {port}")
        ours = {self._pid, *trees.descendants(self._pid), *trees.marked(*self._marker)}
        sockets = ports.sockets_of(ours)
        # `localhost` is both addresses, and a client may try the other one first
        answering += ports.answering(_LOOPBACK_V6, port, here)
        if all(listener.inode in sockets for listener in answering):
            return None
        return Probe(ProbeResult.NOT_YET, f"port {port} is held by {ports.holder(port)}, not by this service")


def _identified(pid: int) -> ProcessIdentity | None:
    try:
        return trees.identify(pid)
    except RunsError:
        return None


class _BackgroundProbe:
    def __init__(self, look: Callable[[], Probe]) -> None:
        self._look = look
        self._started = time.monotonic()
        self._outcome: Probe | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def outcome(self, timeout: float) -> Probe | None:
        """What was found, ``None`` while it is still looked for."""
        if self._outcome is None and time.monotonic() - self._started > timeout:
            return Probe(ProbeResult.NOT_YET, f"a probe was not answered within {timeout:g} s")
        return self._outcome

    def _run(self) -> None:
        try:
            self._outcome = self._look()
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = " ".join(str(error).split())[:_LONGEST_REASON]
            self._outcome = Probe(ProbeResult.NOT_YET, f"a probe failed ({type(error).__name__}: {reason})")


def model_names(body: bytes) -> list[str]:
    """The ids in an answer of ``/v1/models``; raises `ValueError` when it is something else."""
    try:
        answer = json.loads(body)
    except RecursionError:
        raise ValueError("/v1/models is nested too deeply") from None
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise ValueError("/v1/models is not a list of models")  # noqa: TRY004 - wrong data, not a wrong call
    return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]


def _get(host: str, port: int, path: str, api_key: str, timeout: float) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(_LARGEST_ANSWER)
    finally:
        connection.close()
