"""The store: one database, used in units that read and units that write."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

from nemo_helix_server.errors import StoreError, UnavailableError
from nemo_helix_server.store import schema
from nemo_helix_server.store.engine import is_sqlite, keep_private, make_engine, sqlite_file
from nemo_helix_server.store.migrations import HEAD
from nemo_helix_server.store.reader import StoreReader, reader
from nemo_helix_server.store.session import StoreSession
from nemo_helix_server.store.writer import StoreWriter, writer
from nemo_runs.clock import Clock, mark

DEFAULT_WORKSPACE = "default"


class JobStore:
    """A database at a SQLAlchemy address, such as ``sqlite:////var/lib/nhx/jobs.db``.

    Safe to be used by any number of threads. No file and no network is touched inside a unit, and units are
    not nested. `migrate` comes before everything else.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.engine = make_engine(url)
        # Threads of this process take turns here, at once; SQLite itself would have them poll for theirs.
        self._turn = threading.Lock() if is_sqlite(self.engine) else nullcontext()
        self._inside = threading.local()
        self._file = sqlite_file(self.engine)
        self._inode: tuple[int, int] | None = None

    def migrate(self) -> None:
        """Bring the database to the newest schema; quick when it is. Raises `StoreError` when it is newer."""
        if self._file is not None:
            keep_private(self._file)
        if self._version() != HEAD:
            try:
                with self._turn, self.engine.connect() as plain:
                    connection = plain.execution_options(writes=True)
                    with connection.begin():
                        self._upgrade(connection)
            except DBAPIError as error:
                raise StoreError(self._broken(error)) from error
        self._inode = self._look()

    @contextmanager
    def read(self) -> Iterator[StoreReader]:
        """A consistent view; waits for nobody."""
        with self._unit(), self.engine.connect() as connection, connection.begin():
            yield reader(StoreSession(connection, self.clock.now(), mark(self.clock)))

    @contextmanager
    def write(self) -> Iterator[StoreWriter]:
        """A unit that is written as a whole when the block ends, and not at all when it raises."""
        with self._unit(), self._turn, self.engine.connect() as plain:
            connection = plain.execution_options(writes=True)
            with connection.begin():
                yield writer(StoreSession(connection, self.clock.now(), mark(self.clock)))

    def close(self) -> None:
        """Close the database."""
        self.engine.dispose()

    @contextmanager
    def _unit(self) -> Iterator[None]:
        if getattr(self._inside, "unit", False):
            raise RuntimeError("a unit of the store is open in this thread; units are not nested")
        if self._inode is not None and self._look() != self._inode:
            # what is written to a file that has no name any more is lost
            raise UnavailableError(
                f"the database {self._file} was removed or replaced while the service runs; "
                "put it back, or stop the service and start it again"
            )
        self._inside.unit = True
        try:
            yield
        except OperationalError as error:
            raise UnavailableError(f"the database cannot be used now: {error.orig}") from error
        except DatabaseError as error:
            if type(error) is not DatabaseError:
                raise
            raise UnavailableError(self._broken(error)) from error
        finally:
            self._inside.unit = False

    def _look(self) -> tuple[int, int] | None:
        """Which file the database is now; None when it is none, or gone."""
        with suppress(OSError):
            if self._file is not None:
                status = os.stat(self._file)
                return status.st_dev, status.st_ino
        return None

    def _broken(self, error: DBAPIError) -> str:
        return (
            f"the database {self._file or ''} cannot be used: {error.orig}; put a backup in its place, or "
            "move it away to begin with an empty one (the records of each job are in its own directory, too)"
        )

    def _version(self) -> str | None:
        """The revision the database is at; None for one without tables."""
        try:
            with self.engine.connect() as connection:
                found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        except DBAPIError:
            return None
        return str(found) if found is not None else None

    def _upgrade(self, connection: Connection) -> None:
        from nemo_helix_server.store.migrations import upgrade  # noqa: PLC0415 - alembic takes a while to load

        upgrade.to_head(connection)
        known = connection.execute(
            select(schema.workspaces.c.name).where(schema.workspaces.c.name == DEFAULT_WORKSPACE)
        ).first()
        if known is None:
            connection.execute(
                insert(schema.workspaces).values(name=DEFAULT_WORKSPACE, created_at=self.clock.now())
            )


__all__ = ["DEFAULT_WORKSPACE", "JobStore", "StoreError"]
