"""The store: one database, used in units that read and units that write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nemo_helix_server.clock import Clock
from nemo_helix_server.store.reader import Reader
from nemo_helix_server.store.writer import Writer


class Store:
    """A database at a SQLAlchemy address, such as ``sqlite:////var/lib/nhx/jobs.db``.

    Safe to be used by any number of threads. No file and no network is touched inside a unit, and units are
    not nested. `migrate` comes before everything else.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock

    def migrate(self) -> None:
        """Bring the database to the newest schema; quick when it is. Raises `StoreError` when it is newer."""
        raise NotImplementedError

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """A consistent view; waits for nobody."""
        raise NotImplementedError
        yield

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """A unit that is written as a whole when the block ends, and not at all when it raises."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        """Let go of the database."""
        raise NotImplementedError
