"""What the migrations make is what the schema says, and an up-to-date database is not looked at twice."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from tests.nemo_helix_server.worlds import World

from nemo_helix_server.errors import StoreError
from nemo_helix_server.jobs.filtering import parse
from nemo_helix_server.store import migrations, schema
from nemo_helix_server.store.migrations import upgrade
from nemo_helix_server.store.queries import JobQuery
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock

pytestmark = pytest.mark.services
_SAME = {"status": "completed", "spec": '{"epochs": 3}', "platform_spec": '{"steps": []}'}
_SAME |= {"created_by": "anna", "created_at": 1, "updated_at": 1}
_OLD_ROWS: dict[str, dict[str, object]] = {
    "jobs": {
        **_SAME,
        "id": "job",
        "workspace": "default",
        "name": "old",
        "source": "tests",
        "fileset": "old",
        "attempt_id": "attempt",
        "attempt_seq": 0,
        "body_digest": "",
        "status_since": 1,
    },
    "attempts": {**_SAME, "id": "attempt", "job_id": "job", "seq": 0, "status_details": "{}"},
}
"""A job as a database of revision 0005 has it."""


_KILLED_AT_A_STATEMENT = """
import os, sys
from sqlalchemy import event
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import SystemClock

store, left = JobStore(sys.argv[1], SystemClock()), int(sys.argv[2])

@event.listens_for(store.engine, "before_cursor_execute")
def count(*_):
    global left
    left -= 1
    if not left:
        os._exit(9)

store.migrate()
"""


def _make_old(store: JobStore, revision: str) -> None:
    """Make the database of an earlier release, with a job."""
    with store.engine.execution_options(writes=True).begin() as connection:
        command.upgrade(upgrade.configuration(connection), revision)
        for table, values in _OLD_ROWS.items():
            names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), values)


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


def test_a_database_from_before_the_index_of_specs_is_filtered_alike_after_its_upgrade(
    tmp_path: Path,
) -> None:
    store = JobStore(f"sqlite:///{tmp_path / 'jobs.db'}", MovableClock())
    _make_old(store, "0005")
    store.migrate()
    query = JobQuery(workspace="default", where=parse.parse([("filter", "spec.epochs:3")]).tree)
    for _ in range(2):
        with store.read() as reader:
            assert [job.name for job in reader.jobs.page(query).items] == ["old"]
        with store.write() as writer:
            writer.jobs.index_specs(10)
    store.close()


def test_an_upgrade_that_is_killed_is_made_good_by_the_next_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    store = JobStore(url, MovableClock())
    _make_old(store, "0001")
    store.close()
    for statement in (6, 14, 30):
        argv = [sys.executable, "-c", _KILLED_AT_A_STATEMENT, url, str(statement)]
        assert subprocess.run(argv, check=False, timeout=120).returncode == 9
    store = JobStore(url, MovableClock())
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0001"
    store.migrate()
    with store.read() as reader:
        assert [job.name for job in reader.jobs.page(JobQuery(workspace="default")).items] == ["old"]
    store.close()


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
