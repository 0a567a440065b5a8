"""Trained models and templates of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

DOCUMENT = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "entities",
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("workspace", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "workspace", "name", name=op.f("pk_entities")),
    )
    op.create_index(
        "ix_entities_by_creation", "entities", ["kind", "workspace", "created_at", "name"], unique=False
    )
