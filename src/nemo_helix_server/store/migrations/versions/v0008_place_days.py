"""How often each place interrupted its allocations, day by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "place_days",
        sa.Column("place", sa.String(length=255), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("allocations", sa.Integer(), nullable=False),
        sa.Column("interruptions", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("place", "day", name=op.f("pk_place_days")),
    )
