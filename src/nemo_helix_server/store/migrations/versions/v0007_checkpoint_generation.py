"""The generation that saved a checkpoint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of checkpoints from before none is known until their job is looked at again."""
    op.add_column("checkpoints", sa.Column("generation", sa.BigInteger(), nullable=False, server_default="0"))
