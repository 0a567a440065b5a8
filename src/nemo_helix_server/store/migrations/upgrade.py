"""Bringing a database to the newest revision."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection

from nemo_helix_server.errors import StoreError


def configuration(connection: Connection) -> Config:
    """What alembic is to work with."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def to_head(connection: Connection) -> None:
    """Run the revisions that the database lacks; raises `StoreError` when it has ones nobody here knows."""
    try:
        command.upgrade(configuration(connection), "head")
    except CommandError as error:
        message = (
            "the database was written by a newer release; run that one, or restore the backup made before it"
        )
        raise StoreError(message) from error
