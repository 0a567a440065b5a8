"""What alembic runs for each command; the connection is handed in, inside a write unit's transaction."""

from __future__ import annotations

from alembic import context

from nemo_helix_server.store import entities

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=entities.table.metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
