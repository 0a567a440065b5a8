"""What the migrations make is what the schema says, and an up-to-date database is not looked at twice."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from tests.nemo_helix_server.worlds import World

from nemo_helix_server.errors import StoreError
from nemo_helix_server.store import migrations, schema
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock

pytestmark = pytest.mark.services


def test_migrated_and_fresh_are_the_same(world: World) -> None:
    with world.store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


def test_sqlite_has_the_very_same_tables(tmp_path: Path) -> None:
    migrated = JobStore(f"sqlite:///{tmp_path / 'migrated.db'}", MovableClock())
    migrated.migrate()
    fresh = create_engine(f"sqlite:///{tmp_path / 'fresh.db'}")
    schema.metadata.create_all(fresh)
    found = []
    for engine in (migrated.engine, fresh):
        with engine.connect() as connection:
            query = "SELECT sql FROM sqlite_master WHERE tbl_name NOT LIKE 'alembic%' AND sql IS NOT NULL"
            # a column that was added stands right before the bracket
            statements = [
                " ".join(row[0].split()).removesuffix(")").rstrip() for row in connection.execute(text(query))
            ]
            parts = (re.split(r", | \( | \)", statement) for statement in statements)
            found.append({frozenset(part.strip() for part in of_one) for of_one in parts})
        engine.dispose()
    assert found[0] == found[1]


def test_the_newest_revision_is_the_one_that_is_checked_for() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_current_head() == migrations.HEAD


def test_a_database_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    store = JobStore(f"sqlite:///{tmp_path / 'jobs.db'}", MovableClock())
    store.migrate()
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="newer release"):
        store.migrate()
    store.close()


def test_an_up_to_date_database_needs_no_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    store = JobStore(url, MovableClock())
    store.migrate()
    store.close()
    program = (
        "import sys\n"
        "from nemo_runs.clock import SystemClock\n"
        "from nemo_helix_server.store.store import JobStore\n"
        "JobStore(sys.argv[1], SystemClock()).migrate()\n"
        "print('alembic' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "False\n"


def test_an_address_that_is_none_is_said_so() -> None:
    for url in ("nonsense", "mysql://x/y"):
        with pytest.raises(StoreError, match=r"sqlite"):
            JobStore(url, MovableClock())
