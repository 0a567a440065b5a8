"""Names in the indexes that lists are read by, so that a part of a name is looked for in them alone."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_ORDERS = {
    "ix_jobs_by_creation": ["workspace", "created_at", "id"],
    "ix_jobs_by_change": ["workspace", "updated_at", "id"],
    "ix_jobs_everywhere": ["created_at", "id"],
}


def upgrade() -> None:
    """Make each index again, with the name at its end."""
    for name, columns in _ORDERS.items():
        op.drop_index(name, table_name="jobs")
        op.create_index(name, "jobs", [*columns, "name"], unique=False)
