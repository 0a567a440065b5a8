"""What the readers and writers of one unit share: its connection, and the moment it happens at."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class StoreSession:
    """One unit of work."""

    connection: Connection
    now: int
    """The moment of this unit: everything that it writes happened then."""
    mark: str
    """The same moment by the clock of the machine's boot."""


class StorePart:
    """The questions about, or changes of, one kind of row."""

    def __init__(self, session: StoreSession) -> None:
        self.session = session
        self.connection = session.connection
        self.now = session.now
        self.mark = session.mark
