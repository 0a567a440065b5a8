"""What the service needs of the world besides its store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

DAY = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The platform's storage periods, in seconds."""

    paused_storage_ttl_seconds: int = 7 * DAY
    maximum_pause_ttl_seconds: int = 30 * DAY
    failed_storage_ttl_seconds: int = 4 * 3600


class Storage(Protocol):
    """The job directories, as far as the service touches them."""

    def prepare(self, workspace: str, job_id: str) -> None:
        """Make the directories of a job; fine when they are there. Raises `OSError`."""
        ...

    def take_back(self, workspace: str, job_id: str) -> None:
        """Remove what `prepare` made for a job that was not made after all."""
        ...
