"""Starts shims in milliseconds: a small process that has their code loaded and forks one for each order.

It has one thread, holds no locks and no files but its socket, and ends when the service does; the shims go
on. `main` is the process, started with the standard library alone; `Launcher` is the service's side.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from nemo_helix_server.executors import run_files, shim

_LENGTH = struct.Struct("!I")
_PATIENCE = 60.0
"""Seconds that a shim may take to say that it has its run."""
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_CLAIMED, _TAKEN, _FAILED = b"c", b"t", b"f"
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from nemo_helix_server.executors import launcher; launcher.main()"
)


class LaunchError(Exception):
    """No shim could be started; the message says why."""


class Launcher:
    """Asks the launcher process for shims; starts that process when it is needed and was lost."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def launch(self, order: Mapping[str, Any]) -> bool:
        """Start a shim; false when its run was claimed before. Raises `LaunchError`."""
        with self._lock:
            try:
                return self._ask(order)
            except (OSError, EOFError) as error:
                self._close()
                raise LaunchError(f"the process that starts steps was lost: {error!r}") from error

    def warm(self) -> None:
        """Start the process ahead of the first order."""
        with self._lock:
            self._connected()

    def close(self) -> None:
        """End the process; shims go on."""
        with self._lock:
            self._close()

    def _ask(self, order: Mapping[str, Any]) -> bool:
        connection = self._connected()
        data = json.dumps(order).encode("ascii")
        connection.sendall(_LENGTH.pack(len(data)) + data)
        answer = _received(connection, 1)
        if answer == _FAILED:
            (length,) = _LENGTH.unpack(_received(connection, _LENGTH.size))
            raise LaunchError(_received(connection, length).decode("utf-8", "replace"))
        return answer == _CLAIMED

    def _connected(self) -> socket.socket:
        if self._socket is not None and self._process is not None and self._process.poll() is None:
            return self._socket
        self._close()
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE)
        with theirs:
            self._process = subprocess.Popen(
                [self._python, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parents[2])],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )
        self._socket = ours
        return ours

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
            self._process = None


def main() -> NoReturn:
    """Fork a shim for every order that comes through standard input, until that is closed."""
    # a shim unblocks them once it has its handlers; this process ends with its socket
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    gc.freeze()
    while (data := _order(connection)) is not None:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run(connection, data)
        del data
    os._exit(0)


def _order(connection: socket.socket) -> bytes | None:
    with contextlib.suppress(OSError, EOFError):
        (length,) = _LENGTH.unpack(_received(connection, _LENGTH.size))
        return _received(connection, length)
    return None


def _run(connection: socket.socket, data: bytes) -> NoReturn:
    """Be a shim; leave without anything that the launcher would do at its end."""
    order = None
    answered = False

    def claimed(mine: bool) -> None:
        nonlocal answered
        answered = True
        _send(connection, _CLAIMED if mine else _TAKEN)
        connection.close()

    try:
        order = shim.Order.read(json.loads(data))
        shim.run(order, claimed)
    except BaseException as error:  # noqa: BLE001 - the edge of a process: the error is written down
        if not answered:
            text = repr(error).encode()
            _send(connection, _FAILED + _LENGTH.pack(len(text)) + text)
        _write_down(order)
        os._exit(1)
    os._exit(0)


def _send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)


def _write_down(order: shim.Order | None) -> None:
    if order is not None:
        with contextlib.suppress(OSError):
            text = traceback.format_exc()
            (order.folder / run_files.SHIM_LOG).write_text(text, encoding="utf-8", errors="replace")


def _received(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise EOFError("the other side is gone")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
