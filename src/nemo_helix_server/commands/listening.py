"""The socket that the service listens on, and who has it when it is taken."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from nemo_helix_server.errors import ServerError

_PROC = Path("/proc")
_LISTENING = "0A"
_BACKLOG = 2048


class ListenError(ServerError):
    """The service cannot listen there; the message names who does."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, port 0 meaning any free one; raises `ListenError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"the host '{host}' cannot be listened on: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(_why(host, port, error)) from error
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket, host: str) -> str:
    """The address at which clients of this machine reach a listening socket."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}"


def _why(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        holder = holder_of(port)
        by = f" by process {holder}" if holder else " by another program"
        return (
            f"port {port} of {host} is taken{by}; stop it, or give --port another one (0: any that is free)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs rights that this user does not have; give --port one above 1023"
    return f"{host} port {port} cannot be listened on: {error.strerror}"


def holder_of(port: int) -> str | None:
    """``<pid> (<program>)`` of who listens on a TCP port, if it can be seen."""
    inodes = set(_listening_inodes(port))
    if not inodes:
        return None
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and any(link in inodes for link in _descriptors(entry)):
            return f"{entry.name} ({_program(entry)})"
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "self" / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield f"socket:[{fields[9]}]"


def _descriptors(process: Path) -> Iterator[str]:
    try:
        for name in os.listdir(process / "fd"):
            yield os.readlink(process / "fd" / name)
    except OSError:
        return


def _program(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"
