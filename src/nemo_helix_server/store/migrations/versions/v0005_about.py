"""What a transition is about: a job, a step or a task."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; transitions from before say only whether they are the job's."""
    op.add_column("transitions", sa.Column("about", sa.String(length=16), nullable=True))
