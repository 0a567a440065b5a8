"""Reading jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    func,
    literal,
    literal_column,
    select,
    tuple_,
)

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.model import Job, RowPage
from nemo_helix_server.store import filter_sql, rows, schema
from nemo_helix_server.store.queries import JobQuery, JobStretch
from nemo_helix_server.store.session import StorePart

EVERYWHERE = "-"
"""In place of a workspace: all of them."""

_jobs = schema.jobs.c

# Statements that each request and each change of a status need are made once: making one takes SQLAlchemy
# several times as long as the database takes to run it.
_BY_ID = rows.JOB.where(_jobs.id == bindparam("id"))
_BY_ID_HERE = _BY_ID.where(_jobs.workspace == bindparam("workspace"))
_BY_NAME = rows.JOB.where(_jobs.workspace == bindparam("workspace"), _jobs.name == bindparam("name"))
_BY_TOKEN = rows.JOB.where(
    _jobs.workspace == bindparam("workspace"), _jobs.client_token == bindparam("client_token")
)
_values = schema.spec_values.c
_ENTRY = (_values.path == bindparam("path"), _values.value == bindparam("value"))
_HERE = (*_ENTRY, _values.workspace == bindparam("workspace"))
_OF_VALUE = {everywhere: _ENTRY if everywhere else _HERE for everywhere in (False, True)}
_COUNTED = {
    everywhere: select(func.count()).select_from(schema.spec_values).where(*conditions)
    for everywhere, conditions in _OF_VALUE.items()
}
_FIRST = {
    (everywhere, newest_first): select(_values.created_at, _values.job_id)
    .where(*conditions)
    .order_by(*(column.desc() if newest_first else column for column in (_values.created_at, _values.job_id)))
    .limit(bindparam("end"))
    for everywhere, conditions in _OF_VALUE.items()
    for newest_first in (False, True)
}
_BY_CREATION = {"created_at", "-created_at"}
_SORTABLE = {"created_at": _jobs.created_at, "updated_at": _jobs.updated_at, "source": _jobs.source}


class Settled(NamedTuple):
    """What the end of a resting job's storage window depends on."""

    id: str
    status: HelixJobStatus
    attempt_id: str
    stopped_at: int
    pause_ttl_seconds: int | None
    failed_ttl_seconds: int | None
    stopped_mark: str | None


class JobReader(StorePart):
    """Questions about jobs; None means that there is no such job."""

    def find(self, workspace: str, name: str) -> Job | None:
        """A job by its name, or else by its id, in one workspace (`-`: by id in any)."""
        if workspace == EVERYWHERE:
            return self.by_id(name)
        here = {"workspace": workspace}
        return self._job(_BY_NAME, name=name, **here) or self._job(_BY_ID_HERE, id=name, **here)

    def by_id(self, job_id: str) -> Job | None:
        """A job by its id."""
        return self._job(_BY_ID, id=job_id)

    def by_client_token(self, workspace: str, token: str) -> Job | None:
        """The job that was made with this client token."""
        return self._job(_BY_TOKEN, workspace=workspace, client_token=token)

    def body_digest(self, job_id: str) -> str:
        """The digest of what the job was made from."""
        query = select(_jobs.body_digest).where(_jobs.id == job_id)
        return str(self.connection.execute(query).scalar_one())

    def page(self, query: JobQuery) -> RowPage[Job]:
        """One page, filtered, sorted and counted by the database."""
        by_value = filter_sql.spec_value(query.where)
        if by_value is not None and query.sort in _BY_CREATION and self._all_are_indexed():
            return self._page_of_value(query, by_value)
        conditions = filter_sql.conditions(query.where, self.connection.dialect.name)
        if query.workspace is not None:
            conditions.append(_jobs.workspace == query.workspace)
        total = self.connection.execute(
            select(func.count()).select_from(schema.jobs).where(*conditions)
        ).scalar_one()
        # ids first: the index alone says what is passed over
        wanted = _ordered(select(_jobs.id).where(*conditions), query.sort)
        page = wanted.limit(query.page_size).offset((query.page - 1) * query.page_size)
        shown = [row[0] for row in self.connection.execute(page)]
        jobs = self._jobs(_ordered(rows.JOB.where(_jobs.id.in_(shown)), query.sort)) if shown else []
        return RowPage(tuple(jobs), total)

    def stretch(self, query: JobStretch) -> list[Job]:
        """Jobs from a place in their order on, always the newest first."""
        order = _jobs.updated_at if query.by_change else _jobs.created_at
        conditions = filter_sql.conditions(query.where, self.connection.dialect.name)
        if query.workspace is not None:
            conditions.append(_jobs.workspace == query.workspace)
        if query.behind is not None:
            here, there = tuple_(order, _jobs.id), tuple_(*map(literal, query.behind))
            conditions.append(here > there if query.backwards else here < there)
        # ids first: sorting them moves no documents
        ids = select(_jobs.id).where(*conditions)
        columns = (order, _jobs.id)
        ids = ids.order_by(*(columns if query.backwards else (column.desc() for column in columns)))
        chosen = [row[0] for row in self.connection.execute(ids.limit(query.limit))]
        if not chosen:
            return []
        return self._jobs(rows.JOB.where(_jobs.id.in_(chosen)).order_by(order.desc(), _jobs.id.desc()))

    def those(self, ids: Sequence[str]) -> list[Job]:
        """The jobs with some ids that exist."""
        return self._jobs(rows.JOB.where(_jobs.id.in_(ids))) if ids else []

    def ids(self) -> set[str]:
        """The ids of all jobs."""
        return {row[0] for row in self.connection.execute(select(_jobs.id))}

    def number(self) -> int:
        """How many jobs there are."""
        return int(self.connection.execute(select(func.count()).select_from(schema.jobs)).scalar_one())

    def changed_to(self) -> dict[str, int]:
        """When a job of each workspace changed last, in microseconds."""
        newest = select(_jobs.updated_at).where(_jobs.workspace == schema.workspaces.c.name)
        newest = newest.order_by(_jobs.updated_at.desc()).limit(1)
        query = select(schema.workspaces.c.name, newest.scalar_subquery())
        return {row[0]: int(row[1]) for row in self.connection.execute(query) if row[1] is not None}

    def changed_after(self, workspace: str, moment: int) -> list[str]:
        """The ids of a workspace's jobs that changed later than that."""
        query = select(_jobs.id).where(_jobs.workspace == workspace, _jobs.updated_at > moment)
        return [row[0] for row in self.connection.execute(query)]

    def _all_are_indexed(self) -> bool:
        missing = _jobs.spec_indexed != literal_column(str(schema.INDEXED))
        return self.connection.execute(select(_jobs.id).where(missing).limit(1)).first() is None

    def _page_of_value(self, query: JobQuery, wanted: filter_sql.SpecValue) -> RowPage[Job]:
        """The same from the index of values alone; jobs are read for what the page shows."""
        newest_first = query.sort.startswith("-")
        end = query.page * query.page_size
        found, total = [], 0
        for value in wanted.values:  # each one's entries are in order already
            entry = {"path": wanted.path, "value": value, "workspace": query.workspace, "end": end}
            total += self.connection.execute(_COUNTED[query.workspace is None], entry).scalar_one()
            ordered = _FIRST[query.workspace is None, newest_first]
            found += [tuple(row) for row in self.connection.execute(ordered, entry)]
        found.sort(key=lambda entry: entry[0], reverse=newest_first)  # stable: ties stay as they came
        shown = [job_id for _, job_id in found[end - query.page_size : end]]
        jobs = self._jobs(_ordered(rows.JOB.where(_jobs.id.in_(shown)), query.sort)) if shown else []
        return RowPage(tuple(jobs), total)

    def counts(self, workspace: str | None) -> dict[HelixJobStatus, int]:
        """How many jobs there are in each status that occurs."""
        query = select(_jobs.status, func.count()).group_by(_jobs.status)
        found = self.connection.execute(query.where(*_in_workspace(workspace)))
        return {HelixJobStatus(status): count for status, count in found}

    def any_in(self, statuses: Iterable[HelixJobStatus]) -> bool:
        """Whether any job of any workspace is in one of these statuses."""
        query = select(_jobs.id).where(_jobs.status.in_(sorted(statuses))).limit(1)
        return self.connection.execute(query).first() is not None

    def number_in(self, status: HelixJobStatus) -> int:
        """How many jobs of all workspaces are in a status that few jobs are in at once."""
        query = select(func.count()).select_from(schema.jobs).where(_jobs.status == status)
        return int(self.connection.execute(query).scalar_one())

    def storage_bytes(self, workspace: str | None) -> int:
        """What the jobs' storage was measured to take, in all."""
        query = select(func.coalesce(func.sum(_jobs.storage_bytes), 0)).where(*_in_workspace(workspace))
        return int(self.connection.execute(query).scalar_one())

    def settled(self, statuses: Iterable[HelixJobStatus]) -> list[Settled]:
        """Jobs resting in these statuses, with their storage, longest first."""
        wanted = [_jobs[name] for name in Settled._fields]
        query = select(*wanted).where(
            _jobs.status.in_(sorted(statuses)),
            _jobs.storage_reclaimed_at.is_(None),
            _jobs.stopped_at.is_not(None),
        )
        found = self.connection.execute(query.order_by(_jobs.stopped_at))
        return [Settled(job_id, HelixJobStatus(status), *rest) for job_id, status, *rest in found]

    def reclaimed(self) -> list[tuple[str, str]]:
        """Workspace and id of every job whose storage is recorded as deleted."""
        query = select(_jobs.workspace, _jobs.id).where(_jobs.storage_reclaimed_at.is_not(None))
        return [(row[0], row[1]) for row in self.connection.execute(query)]

    def in_status(self, status: HelixJobStatus, limit: int) -> list[Job]:
        """Jobs in a status, of all workspaces, oldest first: for creation_pending and deletion_pending."""
        query = rows.JOB.where(_jobs.status == status).order_by(_jobs.created_at, _jobs.id)
        return self._jobs(query.limit(limit))

    def _job(self, query: Select[Any], **given: str) -> Job | None:
        found = self.connection.execute(query, given).first()
        return rows.job(found) if found else None

    def _jobs(self, query: Select[Any]) -> list[Job]:
        return [rows.job(row) for row in self.connection.execute(query)]


def _in_workspace(workspace: str | None) -> list[ColumnElement[bool]]:
    return [] if workspace is None else [_jobs.workspace == workspace]


def _ordered(query: Select[Any], sort: str) -> Select[Any]:
    column = _SORTABLE[sort.removeprefix("-")]
    if sort.startswith("-"):
        return query.order_by(column.desc(), _jobs.id.desc())
    return query.order_by(column, _jobs.id)
