"""The runs of experiment trackers that jobs continue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "tracker_runs",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("tracker", sa.String(length=32), nullable=False),
        sa.Column("run_id", sa.String(length=255), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("published", sa.BigInteger(), nullable=False),
        sa.Column("sending_to", sa.BigInteger(), nullable=True),
        sa.Column("sending_at", sa.BigInteger(), nullable=True),
        sa.Column("said", sa.String(length=32), nullable=True),
        sa.Column("settled", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_tracker_runs_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "tracker", name=op.f("pk_tracker_runs")),
    )
