import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.nemo_helix_server import postgres
from tests.nemo_helix_server.worlds import World

from nemo_helix_server.store import schema
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a server of this session's own."""
    if postgres.programs() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("PostgreSQL is not installed; `make system-packages` installs it as root")
        pytest.skip("PostgreSQL is not installed")
    with postgres.cluster() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """The same world on each database."""
    clock = MovableClock()
    if request.param == "sqlite":
        store = JobStore(f"sqlite:///{tmp_path / 'jobs.db'}", clock)
    else:
        store = JobStore(request.getfixturevalue("postgres_url"), clock)
        _empty(store)
    store.migrate()
    yield World(store, clock)
    store.close()


def _empty(store: JobStore) -> None:
    """Emptying 13 tables takes 20 ms, making them anew 300."""
    store.migrate()
    names = ", ".join(f'"{table}"' for table in schema.metadata.tables if table != "workspaces")
    with store.engine.execution_options(writes=True).begin() as connection:
        connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY CASCADE"))
        connection.execute(text("DELETE FROM workspaces WHERE name <> 'default'"))
