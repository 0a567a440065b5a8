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

from nemo_helix_server.executors import shim
from nemo_helix_server.storage import run_files
from nemo_runs.processes import trees

_LENGTH = struct.Struct("!I")
_ANSWER = struct.Struct("!IcI")
"""The number of the order, what became of it, and how many bytes of explanation follow."""
_SHIM_TIMEOUT = 60.0
"""Seconds that a shim may take to say that it has its run."""
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_LONGEST_TEXT = 2000
_CLAIMED, _TAKEN, _FAILED = b"c", b"t", b"f"
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from nemo_helix_server.executors import launcher; launcher.main()"
)


class ShimStartError(Exception):
    """No shim could be started; the message says why."""


class Launcher:
    """Asks the launcher process for shims; starts that process when it is needed and was lost.

    Threads may ask at the same time: their shims take their runs side by side, and each waits for the disk.
    """

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._lock = threading.Lock()
        """Held while the process is started, ended or given an order."""
        self._link: _Link | None = None

    def launch(self, order: Mapping[str, Any]) -> bool:
        """Start a shim; false when its run was claimed before. Raises `ShimStartError`."""
        link = None
        try:
            with self._lock:
                link = self._connected()
                number = link.send(order)
            outcome, text = link.answer(number)
        except (OSError, EOFError) as error:
            with self._lock:
                if self._link is link:
                    self._close()
            raise ShimStartError(f"the process that starts steps was lost: {error!r}") from error
        if outcome == _FAILED:
            raise ShimStartError(text)
        return outcome == _CLAIMED

    def warm(self) -> None:
        """Start the process ahead of the first order."""
        with self._lock:
            self._connected()

    def close(self) -> None:
        """End the process; shims go on."""
        with self._lock:
            self._close()

    def _connected(self) -> _Link:
        if self._link is None or not self._link.is_up():
            self._close()
            self._link = _Link(self._python)
        return self._link

    def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


class _Link:
    """One launcher process and the socket to it; answers come in any order, each with its order's number."""

    def __init__(self, python: str) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_SHIM_TIMEOUT)
        self._reading = threading.Lock()
        self._sent = 0
        self._answers: dict[int, tuple[bytes, str]] = {}
        with theirs:
            self._process = subprocess.Popen(
                [python, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parents[2])],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )

    def is_up(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def send(self, order: Mapping[str, Any]) -> int:
        """Give an order, in turn with everybody else; its number."""
        self._sent += 1
        data = json.dumps({"number": self._sent, "order": order}).encode("ascii")
        self._socket.sendall(_LENGTH.pack(len(data)) + data)
        return self._sent

    def answer(self, number: int) -> tuple[bytes, str]:
        """The outcome of an order; each waiting thread reads for all."""
        while True:
            with self._reading:
                if number in self._answers:
                    return self._answers.pop(number)
                found, outcome, length = _ANSWER.unpack(_received(self._socket, _ANSWER.size))
                self._answers[found] = outcome, _received(self._socket, length).decode("utf-8", "replace")

    def close(self) -> None:
        """End the process, which ends with its socket."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a thread that waits for an answer waits no longer
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SHIM_TIMEOUT)


def main() -> NoReturn:
    """Fork a shim for every order that comes through standard input, until that is closed."""
    # a shim unblocks them once it has its handlers; this process ends with its socket
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    trees.identify()  # what is read and loaded once for it is there in each shim
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
    value = json.loads(data)

    def answer(outcome: bytes, text: bytes = b"") -> None:
        # by one send: other shims answer on the same socket
        with contextlib.suppress(OSError):
            connection.sendall(_ANSWER.pack(value["number"], outcome, len(text)) + text)

    def claimed(mine: bool) -> None:
        nonlocal answered
        answered = True
        answer(_CLAIMED if mine else _TAKEN)
        connection.close()

    try:
        order = shim.ShimOrder.read(value["order"])
        shim.run(order, claimed)
    except BaseException as error:  # noqa: BLE001 - the edge of a process: the error is written down
        if not answered:
            answer(_FAILED, repr(error).encode()[:_LONGEST_TEXT])
        _write_down(order)
        os._exit(1)
    os._exit(0)


def _write_down(order: shim.ShimOrder | None) -> None:
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
