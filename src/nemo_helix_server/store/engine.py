"""Connections of the two databases, set up so that a unit of work means the same in both."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from nemo_helix_server.errors import StoreError

BUSY_MILLISECONDS = 60_000
"""How long another process may hold the database before a unit gives up."""
WRITER_LOCK = 0x62_61_74_6F_6E
"""Key of the lock that makes writers of a PostgreSQL database take turns, as SQLite's do."""


def make_engine(url: str) -> Engine:
    """An engine for a SQLAlchemy address; raises `StoreError` for what cannot be one."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        message = "this is not an address of a database; write sqlite:////absolute/path or postgresql://user@host/name"
        raise StoreError(message) from error
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgresql(str(parsed.set(drivername="postgresql+psycopg").render_as_string(False)))
    name = parsed.get_backend_name()
    raise StoreError(f"a database of the kind {name} is not supported; use sqlite or postgresql")


def is_sqlite(engine: Engine) -> bool:
    """Whether the engine's database is a file of this machine."""
    return engine.dialect.name == "sqlite"


def sqlite_file(engine: Engine) -> str | None:
    """The file that the engine's database is; None for a server's."""
    return engine.url.database if is_sqlite(engine) else None


def keep_private(file: str) -> None:
    """Let nobody but its owner read the file that a database is, nor those beside it; made if need be.

    SQLite gives the files that it makes beside it the same mode.
    """
    if file == ":memory:":
        return
    with contextlib.suppress(OSError):  # what is wrong with it is reported when it is used
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            if os.stat(file + ending).st_mode & 0o077:
                os.chmod(file + ending, 0o600)


def _dumps(value: Any) -> str:
    """A value as JSON text: quickly where that is possible, and never an error for what was once accepted."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # numbers beyond 64 bits
        return json.dumps(value)


def _loads(text: str | bytes) -> Any:
    """A value from JSON text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def _options() -> dict[str, Any]:
    return {
        "json_serializer": _dumps,
        "json_deserializer": _loads,
        "pool_size": 16,
        "max_overflow": 112,
        "pool_use_lifo": True,
    }


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_MILLISECONDS / 1000}, **_options())
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    """Leave transactions to us: the driver would begin them late, and never as writers."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={BUSY_MILLISECONDS}",
        "cache_size=-16384",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql(url: str) -> Engine:
    engine = create_engine(url, pool_pre_ping=True, **_options())
    event.listen(engine, "begin", _begin_postgresql)
    return engine


def _begin_postgresql(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    if writes:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITER_LOCK})")
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
