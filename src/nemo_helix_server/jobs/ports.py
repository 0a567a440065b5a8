"""What the service needs of the world besides its store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from nemo_helix_plugin.jobs.types import HelixJobSpec
from nemo_helix_server.jobs.model import StepContext


class StorageLimits(Protocol):
    """The platform's storage periods, in seconds; `nemo_helix_server.settings.StorageSettings` has them."""

    @property
    def paused_storage_ttl_seconds(self) -> int:
        """How long the storage of a paused job is kept that has no pause window of its own."""
        ...

    @property
    def maximum_pause_ttl_seconds(self) -> int:
        """The longest pause window that a job may have."""
        ...

    @property
    def failed_storage_ttl_seconds(self) -> int:
        """How long the storage of a job that ended in error is kept."""
        ...


class StepMachine(Protocol):
    """The place where steps run, as far as it can be asked before one is started."""

    def check_spec(self, spec: HelixJobSpec) -> None:
        """Raise `InvalidError` for a new job that could never run here."""
        ...

    def obstacle(self, context: StepContext, steps: tuple[Mapping[str, Any], ...] = ()) -> str | None:
        """Why a step, or one of ``steps`` of its attempt, cannot be started now, a sentence; None: nothing.

        A wait for other work is not an obstacle.
        """
        ...


class Storage(Protocol):
    """The job directories, as far as the service touches them."""

    def prepare(self, workspace: str, job_id: str) -> None:
        """Make the directories of a job; fine when they are there. Raises `OSError`."""
        ...

    def undo_prepare(self, workspace: str, job_id: str) -> None:
        """Remove what `prepare` made for a job that was not made after all."""
        ...
