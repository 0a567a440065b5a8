"""The turns that an agent stores of one rollout, kept by the store of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nemo_gym.rollouts.output.disk_wait import DiskWait
from nemo_gym.types import Row, Task


class TurnStore(Protocol):
    """What is needed of `nemo_gym.rollouts.output.store.OutputStore`."""

    def turns(self, task: Task) -> Sequence[Row]:
        """What earlier attempts have stored."""
        ...

    def add_turn(self, task: Task, entry: Mapping[str, Any]) -> None:
        """Store one more entry."""
        ...


@dataclass(frozen=True, slots=True)
class TaskTurns:
    """A `nemo_gym.types.TurnLog`; a full disk is waited for."""

    store: TurnStore
    disk_wait: DiskWait
    task: Task

    def stored(self) -> Sequence[Row]:
        """See the protocol."""
        return self.store.turns(self.task)

    async def add(self, entry: Row) -> None:
        """See the protocol."""
        await self.disk_wait.stored(lambda: self.store.add_turn(self.task, entry))
