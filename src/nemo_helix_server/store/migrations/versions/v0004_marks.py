"""Moments by the clock of the machine's boot, beside the dates that deadlines and windows count from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; without a mark the date counts."""
    op.add_column("jobs", sa.Column("stopped_mark", sa.String(length=64), nullable=True))
    op.add_column("steps", sa.Column("since_mark", sa.String(length=64), nullable=True))
    op.add_column("steps", sa.Column("turn_at", sa.BigInteger(), nullable=True))
    op.add_column("steps", sa.Column("turn_mark", sa.String(length=64), nullable=True))
