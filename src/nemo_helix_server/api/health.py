"""Whether the service works: reading and writing its database, and writing beside it, are tried."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nemo_helix_server.errors import ServerError
from nemo_helix_server.store.store import JobStore

_FRESH_SECONDS = 2.0
"""For so long one look serves all who ask: asking needs no token, and costs a write."""
_SAMPLE = b"\0" * 65_536


@dataclass(slots=True)
class HealthProbe:
    """Tries what the service needs, at most once in a while."""

    store: JobStore
    data_dir: Path
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked: float | None = None
    _found: tuple[str, ...] = ()

    def problems(self) -> tuple[str, ...]:
        """What does not work, a sentence each."""
        with self._lock:
            now = self.clock()
            if self._looked is None or now - self._looked >= _FRESH_SECONDS:
                self._found = tuple(self._look())
                self._looked = now
            return self._found

    def _look(self) -> Iterator[str]:
        try:
            with self.store.read() as reader:
                reader.transitions.last()
        except Exception as error:  # noqa: BLE001 - whatever it is, this answer is how an operator learns of it
            yield f"the database cannot be read ({_why(error)})"
            return
        try:
            with self.store.write() as writer:
                writer.workspaces.prove()
        except Exception as error:  # noqa: BLE001 - as above
            yield f"the database cannot be written ({_why(error)})"
        try:
            _write(self.data_dir / f".probe-{secrets.token_hex(8)}")
        except OSError as error:
            yield f"nothing can be written to the data directory ({error.strerror or error})"


def _why(error: Exception) -> str:
    return error.detail if isinstance(error, ServerError) else type(error).__name__


def _write(path: Path) -> None:
    created = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(_SAMPLE)
        while left:
            left = left[os.write(created, left) :]
        os.fsync(created)
    finally:
        os.close(created)
        with contextlib.suppress(OSError):
            path.unlink()
