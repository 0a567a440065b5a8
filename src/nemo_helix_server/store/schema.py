"""The tables. Moments are integer microseconds UTC; JSON is text in SQLite and jsonb in PostgreSQL.

Changing a table means a new migration in ``migrations/versions``; a test compares what the migrations make
with what is written here.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Document = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
Sequence = BigInteger().with_variant(Integer, "sqlite")
Moment = BigInteger
Key = String(64)
Name = String(255)
Mark = String(64)
"""A moment by the clock of the machine's boot, see `nemo_runs.clock.mark`."""


def _job_key(*, primary: bool = False) -> Column[str]:
    return Column(
        "job_id", Key, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=primary, nullable=False
    )


workspaces = Table(
    "workspaces",
    metadata,
    Column("name", Name, primary_key=True),
    Column("description", Text),
    Column("created_at", Moment, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Key, primary_key=True),
    Column("workspace", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("source", Name, nullable=False),
    Column("status", String(32), nullable=False),
    Column("reason", String(64)),
    Column("project", Text),
    Column("description", Text),
    Column("spec", Document, nullable=False),
    Column("platform_spec", Document, nullable=False),
    Column("ownership", Document),
    Column("custom_fields", Document),
    Column("output_location", Text),
    Column("fileset", Name, nullable=False),
    Column("pause_ttl_seconds", BigInteger),
    Column("failed_ttl_seconds", BigInteger),
    Column("attempt_id", Key, nullable=False),
    Column("attempt_seq", Integer, nullable=False),
    Column("body_digest", String(64), nullable=False),
    Column("client_token", String(255)),
    Column("created_by", Name, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("status_since", Moment, nullable=False),
    Column("stopped_at", Moment),
    Column("storage_reclaimed_at", Moment),
    Column("storage_bytes", BigInteger),
    Column("storage_measured_at", Moment),
    Column("stopped_mark", Mark),
    Column("spec_indexed", Integer, nullable=False, server_default="0"),
    UniqueConstraint("workspace", "name"),
    UniqueConstraint("workspace", "client_token"),
    # One index a filter and order that the lists offer; the id breaks ties. The name behind it lets a part of
    # a name be looked for in the index alone: rows of this table are large, and a hundred thousand take long.
    Index("ix_jobs_by_creation", "workspace", "created_at", "id", "name"),
    Index("ix_jobs_by_change", "workspace", "updated_at", "id", "name"),
    Index("ix_jobs_by_status", "workspace", "status", "created_at", "id"),
    Index("ix_jobs_by_source", "workspace", "source", "status", "created_at", "id"),
    Index("ix_jobs_everywhere", "created_at", "id", "name"),
    Index("ix_jobs_everywhere_by_status", "status", "created_at", "id"),
    Index("ix_jobs_windows", "status", "storage_reclaimed_at", "stopped_at"),
    Index(
        "ix_jobs_unindexed",
        "spec_indexed",
        "id",
        sqlite_where=text("spec_indexed <> 1"),
        postgresql_where=text("spec_indexed <> 1"),
    ),
)
UNINDEXED, INDEXED, TOO_MANY_VALUES = 0, 1, 2
"""Of ``jobs.spec_indexed``: whether `spec_values` has the values of the job's spec."""

spec_values = Table(
    "spec_values",
    metadata,
    _job_key(primary=True),
    Column("path", String(200), primary_key=True),
    Column("value", Name, nullable=False),
    Column("workspace", Name, nullable=False),
    Column("created_at", Moment, nullable=False),
    # Also in the order of the lists, so that a page takes a few rows of it and a count none of ``jobs``.
    Index("ix_spec_values_found", "path", "value", "workspace", "created_at", "job_id"),
    sqlite_with_rowid=False,
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Key, primary_key=True),
    _job_key(),
    Column("seq", Integer, nullable=False),
    Column("status", String(32), nullable=False),
    Column("reason", String(64)),
    Column("spec", Document, nullable=False),
    Column("platform_spec", Document, nullable=False),
    Column("status_details", Document, nullable=False),
    Column("error_details", Document),
    Column("metrics", Document),
    Column("checkpoint", Name),
    Column("created_by", Name, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("job_id", "seq"),
)

steps = Table(
    "steps",
    metadata,
    Column("id", Key, primary_key=True),
    _job_key(),
    Column("attempt_id", Key, ForeignKey("attempts.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("name", Name, nullable=False),
    Column("status", String(32), nullable=False),
    Column("reason", String(64)),
    Column("spec", Document, nullable=False),
    Column("status_details", Document, nullable=False),
    Column("error_details", Document),
    Column("task", Name),
    Column("control_seq", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("status_since", Moment, nullable=False),
    Column("started_at", Moment),
    Column("stopped_at", Moment),
    Column("since_mark", Mark),
    Column("turn_at", Moment),
    Column("turn_mark", Mark),
    UniqueConstraint("attempt_id", "seq"),
    UniqueConstraint("attempt_id", "name"),
    Index("ix_steps_by_status", "status", "created_at", "id"),
    Index("ix_steps_by_job", "job_id"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", Key, primary_key=True),
    _job_key(),
    Column("attempt_id", Key, nullable=False),
    Column("step_id", Key, ForeignKey("steps.id", ondelete="CASCADE"), nullable=False),
    Column("name", Name, nullable=False),
    Column("status", String(32), nullable=False),
    Column("status_details", Document, nullable=False),
    Column("error_details", Document),
    Column("error_stack", Text),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("step_id", "name"),
    Index("ix_tasks_by_attempt", "attempt_id"),
    Index("ix_tasks_by_job", "job_id"),
)

results = Table(
    "results",
    metadata,
    _job_key(primary=True),
    Column("name", Name, primary_key=True),
    Column("attempt_id", Key, nullable=False),
    Column("artifact_url", Text, nullable=False),
    Column("artifact_storage_type", String(32), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

# Without a foreign key: what happened outlives the job, and its names stand here.
transitions = Table(
    "transitions",
    metadata,
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("workspace", Name, nullable=False),
    Column("job_id", Key, nullable=False),
    Column("job", Name, nullable=False),
    Column("attempt_id", Key),
    Column("step_id", Key),
    Column("step", Name),
    Column("task", Name),
    Column("origin", String(32)),
    Column("to", String(32), nullable=False),
    Column("event", String(32), nullable=False),
    Column("reason", String(64)),
    Column("at", Moment, nullable=False),
    Column("who", Name, nullable=False),
    Column("why", Text, nullable=False),
    Column("about", String(16)),
    Index("ix_transitions_by_job", "job_id", "seq"),
    sqlite_autoincrement=True,
)

metric_points = Table(
    "metric_points",
    metadata,
    _job_key(primary=True),
    Column("step_name", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", Float),
    Column("value", Float, nullable=False),
    sqlite_with_rowid=False,
)

tails = Table(
    "tails",
    metadata,
    _job_key(primary=True),
    Column("name", Name, primary_key=True),
    Column("offset", BigInteger, nullable=False),
)

place_days = Table(
    "place_days",
    metadata,
    Column("place", Name, primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("allocations", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
)

# Without a foreign key: a pinned one outlives the job.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("job_id", Key, primary_key=True),
    Column("id", Name, primary_key=True),
    Column("workspace", Name, nullable=False),
    Column("job", Name, nullable=False),
    Column("attempt_id", Key),
    Column("step_name", Name, nullable=False),
    Column("task", Name),
    Column("step", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("reason", String(32), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("verified_at", Moment),
    Column("problem", Text),
    Column("present", Boolean, nullable=False),
    Column("metrics", Document, nullable=False),
    Column("generation", BigInteger, nullable=False, server_default="0"),
    Column("pin_requested_at", Moment),
    Column("pin_requested_by", Name),
    Column("pinned_at", Moment),
    Column("pinned_path", Text),
    Index("ix_checkpoints_pins", "pin_requested_at"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Key, primary_key=True),
    Column("name", Name, nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("role", String(32), nullable=False),
    Column("workspace", Name),
    Column("created_at", Moment, nullable=False),
    Column("created_by", Name, nullable=False),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
)

secrets = Table(
    "secrets",
    metadata,
    Column("workspace", Name, primary_key=True),
    Column("name", Name, primary_key=True),
    Column("description", Text),
    Column("created_by", Name, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)
