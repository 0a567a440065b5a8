"""Who listens on a port of this machine: sockets by ``/proc/net``, their owners by ``/proc/<pid>/fd``."""

from __future__ import annotations

import errno
import os
import random
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from nemo_gym.errors import GymError

_LISTEN = "0A"
_TABLES = ("tcp", "tcp6")
_LOWEST = 15_000
_TRIES = 200


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening socket."""

    address: IPv4Address | IPv6Address
    port: int
    inode: int


class PortTakenError(GymError):
    """A fixed port is taken by somebody else."""


def parse_table(text: str) -> list[Listener]:
    """The listening sockets of a table such as ``/proc/net/tcp``."""
    rows = (line.split() for line in text.splitlines()[1:])
    return [
        Listener(_address(row[1].partition(":")[0]), int(row[1].partition(":")[2], 16), int(row[9]))
        for row in rows
        if len(row) > 9 and row[3] == _LISTEN
    ]


def answering(host: IPv4Address | IPv6Address, port: int, listeners: Iterable[Listener]) -> list[Listener]:
    """The sockets that a connection to ``host`` can reach: bound to it, else bound to every address."""
    of_port = [listener for listener in listeners if listener.port == port]
    exact = [listener for listener in of_port if _same(listener.address, host)]
    return exact or [listener for listener in of_port if _everywhere(listener.address, host)]


def listeners_here() -> list[Listener]:
    """All listening TCP sockets of this machine."""
    found: list[Listener] = []
    for table in _TABLES:
        path = Path("/proc/net") / table
        if path.exists():
            found += parse_table(path.read_text(encoding="ascii"))
    return found


def sockets_of(pids: Iterable[int]) -> dict[int, int]:
    """The process of each open socket, by inode; processes that cannot be read are left out."""
    owners: dict[int, int] = {}
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                link = os.readlink(f"{folder}/{name}")
            except OSError:
                continue
            if link.startswith("socket:["):
                owners[int(link[8:-1])] = pid
    return owners


def holder(port: int) -> str:
    """A clause that names who listens on a port, as far as it can be seen."""
    inodes = {listener.inode for listener in listeners_here() if listener.port == port}
    everybody = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    pids = sorted({pid for inode, pid in sockets_of(everybody).items() if inode in inodes})
    if not pids:
        return "a process that cannot be seen from here"
    return " and ".join(f"process {pid} ({_command(pid)})" for pid in pids)


def choose_ports(asked: Mapping[str, int]) -> dict[str, int]:
    """A port for each name: the fixed one it asks for, or for 0 a free one, all different.

    Raises `PortTakenError` naming the holder of a fixed port. Free ones are chosen at random below the range
    that the kernel gives to outgoing connections, so that none is lost while a model loads.
    """
    chosen = {name: _fixed(name, port) for name, port in asked.items() if port}
    for name, port in asked.items():
        if not port:
            chosen[name] = _free(set(chosen.values()))
    return {name: chosen[name] for name in asked}


def _fixed(name: str, port: int) -> int:
    if not _bindable(port):
        raise PortTakenError(f"port {port} of service '{name}' is taken by {holder(port)}")
    return port


def _free(taken: set[int]) -> int:
    highest = _first_outgoing_port() - 1
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, highest)
        if port not in taken and _bindable(port):
            return port
    raise GymError(f"no free port between {_LOWEST} and {highest} was found on this machine")


def _first_outgoing_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        return max(int(text.split()[0]), _LOWEST + 1000)
    except (OSError, ValueError, IndexError):
        return 32_768


def _bindable(port: int) -> bool:
    """Whether the port is free on loopback, of both kinds, and on every address."""
    addresses = ("127.0.0.1", "0.0.0.0", "::1")  # noqa: S104 - bound for a moment, never listening
    return not any(_in_use(address, port) for address in addresses)


def _in_use(address: str, port: int) -> bool:
    try:
        probe = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError:
        return False  # a machine without that kind of address
    with probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return False


def _address(text: str) -> IPv4Address | IPv6Address:
    """The kernel prints addresses as 32-bit words in the machine's byte order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    return ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))


def _same(bound: IPv4Address | IPv6Address, host: IPv4Address | IPv6Address) -> bool:
    return host in {bound, getattr(bound, "ipv4_mapped", None)}


def _everywhere(bound: IPv4Address | IPv6Address, host: IPv4Address | IPv6Address) -> bool:
    return bound.is_unspecified and (bound.version >= host.version)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "ended"
