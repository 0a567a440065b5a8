"""Rows of the database as values of the model, and the columns that each takes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.model import (
    Attempt,
    CheckpointRow,
    Job,
    Result,
    SecretRow,
    Step,
    StepContext,
    StepTask,
    Token,
    TransitionRow,
    WorkspaceRow,
)
from nemo_helix_server.store import schema

AnyRow = Row[Any]

_NOT_SHOWN = {"body_digest", "client_token", "spec_indexed"}
JOB: Select[Any] = select(
    *[column for column in schema.jobs.c if column.name not in _NOT_SHOWN],
    schema.attempts.c.status_details,
    schema.attempts.c.error_details,
).join_from(schema.jobs, schema.attempts, schema.attempts.c.id == schema.jobs.c.attempt_id)

CONTEXT: Select[Any] = (
    select(
        schema.steps,
        schema.jobs.c.workspace,
        schema.jobs.c.name.label("job_name"),
        schema.jobs.c.status.label("job_status"),
        schema.jobs.c.attempt_id.label("current_attempt_id"),
        schema.jobs.c.fileset,
        schema.jobs.c.output_location,
        schema.attempts.c.seq.label("attempt_seq"),
        schema.attempts.c.checkpoint,
        schema.attempts.c.created_by,
        schema.attempts.c.platform_spec,
    )
    .join_from(schema.steps, schema.jobs, schema.jobs.c.id == schema.steps.c.job_id)
    .join(schema.attempts, schema.attempts.c.id == schema.steps.c.attempt_id)
)
_STEP_COLUMNS = [column.name for column in schema.steps.c]


def _values(row: AnyRow) -> dict[str, Any]:
    values = dict(row._mapping)  # noqa: SLF001 - the documented way to a row's names
    if "status" in values:
        values["status"] = HelixJobStatus(values["status"])
    return values


def job(row: AnyRow) -> Job:
    """A job with its current attempt's details."""
    return Job(**_values(row))


def attempt(row: AnyRow) -> Attempt:
    """An attempt."""
    return Attempt(**_values(row))


def step(row: AnyRow) -> Step:
    """A step."""
    return Step(**_values(row))


def context(row: AnyRow) -> StepContext:
    """A step with what running it takes."""
    values = _values(row)
    plan = values["platform_spec"]
    return StepContext(
        step=Step(**{name: values[name] for name in _STEP_COLUMNS}),
        workspace=values["workspace"],
        job_name=values["job_name"],
        job_status=HelixJobStatus(values["job_status"]),
        attempt_seq=values["attempt_seq"],
        attempt_checkpoint=values["checkpoint"],
        fileset=values["fileset"],
        output_location=values["output_location"],
        created_by=values["created_by"],
        is_current=values["attempt_id"] == values["current_attempt_id"],
        planned_steps=len(plan["steps"]),
        secrets=tuple(plan.get("secrets") or ()),
    )


def task(row: AnyRow) -> StepTask:
    """A task."""
    return StepTask(**_values(row))


def result(row: AnyRow) -> Result:
    """A result."""
    return Result(**_values(row))


def transition(row: AnyRow) -> TransitionRow:
    """A transition."""
    values = _values(row)
    values["to"] = HelixJobStatus(values["to"])
    values["origin"] = HelixJobStatus(values["origin"]) if values["origin"] else None
    return TransitionRow(**values)


def checkpoint(row: AnyRow) -> CheckpointRow:
    """A checkpoint."""
    return CheckpointRow(**_values(row))


def token(row: AnyRow) -> Token:
    """An access token."""
    return Token(**_values(row))


def secret(row: AnyRow) -> SecretRow:
    """What is known of a secret."""
    return SecretRow(**_values(row))


def workspace(row: AnyRow) -> WorkspaceRow:
    """A workspace."""
    return WorkspaceRow(**_values(row))


def columns(table: Table, value: Any, *, without: Collection[str] = ()) -> dict[str, Any]:
    """A value of the model as the columns of its table."""
    return {column.name: getattr(value, column.name) for column in table.c if column.name not in without}


def put(
    connection: Connection, table: Table, values: list[dict[str, Any]], *, replaced: tuple[str, ...]
) -> None:
    """Insert rows; where one with the same key is there, give its `replaced` columns the new values."""
    keys = [column.name for column in table.primary_key]
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table)
    new = {name: statement.excluded[name] for name in replaced}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=new), values)
