"""An index of the values in specs; the service fills it for the jobs that are there, a few at a time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, and mark all jobs as not in it yet."""
    op.add_column("jobs", sa.Column("spec_indexed", sa.Integer(), server_default="0", nullable=False))
    missing = sa.text("spec_indexed <> 1")
    op.create_index(
        "ix_jobs_unindexed",
        "jobs",
        ["spec_indexed", "id"],
        unique=False,
        sqlite_where=missing,
        postgresql_where=missing,
    )
    op.create_table(
        "spec_values",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("path", sa.String(length=200), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.Column("workspace", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_spec_values_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "path", name=op.f("pk_spec_values")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_spec_values_found",
        "spec_values",
        ["path", "value", "workspace", "created_at", "job_id"],
        unique=False,
    )
