"""A part of a name is looked for in an index alone: reading all jobs for it takes long among very many."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from nemo_helix_server.jobs.filtering.parse import AllOf, Compare, Operator
from nemo_helix_server.store.queries import JobQuery, JobStretch
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock

_WANTED = AllOf((Compare("name", Operator.CONTAINS, "Une_"),))
_QUESTIONS = [
    JobStretch(workspace=workspace, where=_WANTED, by_change=by_change)
    for workspace in (None, "default")
    for by_change in (False, True)
]


@pytest.fixture
def store(tmp_path: Path):
    made = JobStore(f"sqlite:///{tmp_path / 'jobs.db'}", MovableClock())
    made.migrate()
    yield made
    made.close()


def _plans(store: JobStore, question: JobStretch | JobQuery) -> list[str]:
    """How the database would answer each statement that looks for names."""
    asked = []

    def note(_: Connection, __: object, statement: str, values: object, *___: object) -> None:
        if "LIKE" in statement:
            asked.append((statement, values))

    event.listen(store.engine, "before_cursor_execute", note)
    with store.read() as reader:
        if isinstance(question, JobStretch):
            reader.jobs.stretch(question)
        else:
            reader.jobs.page(question)
    event.remove(store.engine, "before_cursor_execute", note)
    with store.engine.connect() as connection:
        return [
            "; ".join(
                str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            )
            for statement, values in asked
        ]


@pytest.mark.parametrize("question", _QUESTIONS, ids=str)
def test_a_list_looks_for_a_part_of_a_name_in_an_index_alone(store: JobStore, question: JobStretch) -> None:
    plans = _plans(store, question)
    assert plans
    assert all("COVERING INDEX" in plan for plan in plans)


def test_a_page_of_the_api_counts_and_orders_by_an_index(store: JobStore) -> None:
    counted, page = _plans(store, JobQuery(workspace="default", where=_WANTED))
    assert "COVERING INDEX" in counted
    assert "ix_jobs_by_creation" in page
    assert "TEMP B-TREE" not in page
