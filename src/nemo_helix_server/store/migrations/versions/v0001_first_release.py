"""The tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DOCUMENT = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make every table."""
    _checkpoints()
    _jobs()
    _secrets()
    _tokens()
    _transitions()
    _workspaces()
    _attempts()
    _metric_points()
    _results()
    _tails()
    _steps()
    _tasks()


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("workspace", sa.String(length=255), nullable=False),
        sa.Column("job", sa.String(length=255), nullable=False),
        sa.Column("attempt_id", sa.String(length=64), nullable=True),
        sa.Column("step_name", sa.String(length=255), nullable=False),
        sa.Column("task", sa.String(length=255), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("verified_at", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.Column("metrics", DOCUMENT, nullable=False),
        sa.Column("pin_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("pin_requested_by", sa.String(length=255), nullable=True),
        sa.Column("pinned_at", sa.BigInteger(), nullable=True),
        sa.Column("pinned_path", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "id", name=op.f("pk_checkpoints")),
    )
    op.create_index("ix_checkpoints_pins", "checkpoints", ["pin_requested_at"], unique=False)


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workspace", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("spec", DOCUMENT, nullable=False),
        sa.Column("platform_spec", DOCUMENT, nullable=False),
        sa.Column("ownership", DOCUMENT, nullable=True),
        sa.Column("custom_fields", DOCUMENT, nullable=True),
        sa.Column("output_location", sa.Text(), nullable=True),
        sa.Column("fileset", sa.String(length=255), nullable=False),
        sa.Column("pause_ttl_seconds", sa.BigInteger(), nullable=True),
        sa.Column("failed_ttl_seconds", sa.BigInteger(), nullable=True),
        sa.Column("attempt_id", sa.String(length=64), nullable=False),
        sa.Column("attempt_seq", sa.Integer(), nullable=False),
        sa.Column("body_digest", sa.String(length=64), nullable=False),
        sa.Column("client_token", sa.String(length=255), nullable=True),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("status_since", sa.BigInteger(), nullable=False),
        sa.Column("stopped_at", sa.BigInteger(), nullable=True),
        sa.Column("storage_reclaimed_at", sa.BigInteger(), nullable=True),
        sa.Column("storage_bytes", sa.BigInteger(), nullable=True),
        sa.Column("storage_measured_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("workspace", "client_token", name=op.f("uq_jobs_workspace_client_token")),
        sa.UniqueConstraint("workspace", "name", name=op.f("uq_jobs_workspace_name")),
    )
    op.create_index("ix_jobs_by_change", "jobs", ["workspace", "updated_at", "id"], unique=False)
    op.create_index("ix_jobs_by_creation", "jobs", ["workspace", "created_at", "id"], unique=False)
    op.create_index(
        "ix_jobs_by_source", "jobs", ["workspace", "source", "status", "created_at", "id"], unique=False
    )
    op.create_index("ix_jobs_by_status", "jobs", ["workspace", "status", "created_at", "id"], unique=False)
    op.create_index("ix_jobs_everywhere", "jobs", ["created_at", "id"], unique=False)
    op.create_index("ix_jobs_everywhere_by_status", "jobs", ["status", "created_at", "id"], unique=False)
    op.create_index("ix_jobs_windows", "jobs", ["status", "storage_reclaimed_at", "stopped_at"], unique=False)


def _secrets() -> None:
    op.create_table(
        "secrets",
        sa.Column("workspace", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "name", name=op.f("pk_secrets")),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("workspace", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
    )


def _transitions() -> None:
    op.create_table(
        "transitions",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("workspace", sa.String(length=255), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("job", sa.String(length=255), nullable=False),
        sa.Column("attempt_id", sa.String(length=64), nullable=True),
        sa.Column("step_id", sa.String(length=64), nullable=True),
        sa.Column("step", sa.String(length=255), nullable=True),
        sa.Column("task", sa.String(length=255), nullable=True),
        sa.Column("origin", sa.String(length=32), nullable=True),
        sa.Column("to", sa.String(length=32), nullable=False),
        sa.Column("event", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_transitions")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_transitions_by_job", "transitions", ["job_id", "seq"], unique=False)


def _workspaces() -> None:
    op.create_table(
        "workspaces",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workspaces")),
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("spec", DOCUMENT, nullable=False),
        sa.Column("platform_spec", DOCUMENT, nullable=False),
        sa.Column("status_details", DOCUMENT, nullable=False),
        sa.Column("error_details", DOCUMENT, nullable=True),
        sa.Column("metrics", DOCUMENT, nullable=True),
        sa.Column("checkpoint", sa.String(length=255), nullable=True),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_attempts_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("job_id", "seq", name=op.f("uq_attempts_job_id_seq")),
    )


def _metric_points() -> None:
    op.create_table(
        "metric_points",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("step_name", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Float(), nullable=True),
        sa.Column("value", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_metric_points_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "step_name", "name", "step", name=op.f("pk_metric_points")),
        sqlite_with_rowid=False,
    )


def _results() -> None:
    op.create_table(
        "results",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("attempt_id", sa.String(length=64), nullable=False),
        sa.Column("artifact_url", sa.Text(), nullable=False),
        sa.Column("artifact_storage_type", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_results_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "name", name=op.f("pk_results")),
    )


def _tails() -> None:
    op.create_table(
        "tails",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_tails_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "name", name=op.f("pk_tails")),
    )


def _steps() -> None:
    op.create_table(
        "steps",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("attempt_id", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("spec", DOCUMENT, nullable=False),
        sa.Column("status_details", DOCUMENT, nullable=False),
        sa.Column("error_details", DOCUMENT, nullable=True),
        sa.Column("task", sa.String(length=255), nullable=True),
        sa.Column("control_seq", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("status_since", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("stopped_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_steps_attempt_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_steps_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_steps")),
        sa.UniqueConstraint("attempt_id", "name", name=op.f("uq_steps_attempt_id_name")),
        sa.UniqueConstraint("attempt_id", "seq", name=op.f("uq_steps_attempt_id_seq")),
    )
    op.create_index("ix_steps_by_job", "steps", ["job_id"], unique=False)
    op.create_index("ix_steps_by_status", "steps", ["status", "created_at", "id"], unique=False)


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("attempt_id", sa.String(length=64), nullable=False),
        sa.Column("step_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("status_details", DOCUMENT, nullable=False),
        sa.Column("error_details", DOCUMENT, nullable=True),
        sa.Column("error_stack", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_tasks_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_tasks_step_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        sa.UniqueConstraint("step_id", "name", name=op.f("uq_tasks_step_id_name")),
    )
    op.create_index("ix_tasks_by_attempt", "tasks", ["attempt_id"], unique=False)
    op.create_index("ix_tasks_by_job", "tasks", ["job_id"], unique=False)
