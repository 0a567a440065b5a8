"""What became of a start of a step: when it ran, on what, and how much of it is done again. Pure.

An allocation is one start of a step. Its record is kept with the task of the start, for the bill of its job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

RECORD, BEGUN = "allocation", "allocation_begun"
"""Keys of a task's status details: `AllocationRecord` of a start that has ended, and of one when it began."""


class AllocationSize(NamedTuple):
    """What a step holds while it runs."""

    nodes: int
    gpus: int
    """On all nodes together."""


def size_of(spec: Mapping[str, Any]) -> AllocationSize:
    """What a step of this spec holds."""
    executor = spec["executor"]
    resources = executor.get("resources") or {}
    nodes = int(resources.get("num_nodes") or 1)
    has_gpus = executor["provider"] in {"gpu", "gpu_distributed"}
    return AllocationSize(nodes, nodes * int(resources.get("num_gpus", 1) or 0) if has_gpus else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRecord:
    """How one start of a step went; moments in seconds since the epoch, by the clock of its machine."""

    began_at: float | None
    """When its command began; `None` = it did not, or nobody knows."""
    ended_at: float | None
    eligible_at: float | None = None
    """Since when its scheduler could have let it begin; `None` = there is none, or it does not say."""
    nodes: int = 1
    gpus: int = 0
    """On all nodes together."""
    place: str = ""
    """Where it ran, for people, such as ``job 4711 on n3``."""
    unannounced: bool = False
    """Whether its place was taken away without a notice that it could act on."""
    cause: str = ""
    """Why its place was taken away: a clause such as ``it was preempted``; empty when it was not."""
    notice: str = ""
    """The kind of notice that its scheduler gave before, such as ``preemption``; empty = none is known."""
    noticed_at: float | None = None
    grace_seconds: float | None = None
    """How long before the end of its place that was."""
    trained_since: float | None = None
    """When it had finished its first training step; `None` = it is not known to have finished one."""
    first_step: int | None = None
    """The training step that it went on from; `None` of a step that does not train."""
    last_step: int | None = None
    """The last training step that it is known to have finished."""
    kept_step: int | None = None
    """The training step from which another start would go on, once this one had ended."""
    kept_at: float | None = None
    """When that was saved, where this start saved it."""

    @property
    def seconds(self) -> float:
        """How long its command ran."""
        if self.began_at is None or self.ended_at is None:
            return 0.0
        return max(0.0, self.ended_at - self.began_at)

    @property
    def startup_seconds(self) -> float:
        """How long it took to its first training step, the step included; nothing where none is known."""
        if self.began_at is None or self.trained_since is None:
            return 0.0
        return min(self.seconds, max(0.0, self.trained_since - self.began_at))

    @property
    def repeated_steps(self) -> int:
        """Training steps that another start does again."""
        if self.last_step is None:
            return 0
        return max(0, self.last_step - max(self.kept_step or 0, self.first_step or 0))

    @property
    def unsaved_seconds(self) -> float:
        """How long it ran after what is kept of it; nothing where no training step is done again.

        A start that saved nothing at all is lost as a whole.
        """
        if self.first_step is None or self.ended_at is None:
            return 0.0
        if self.kept_at is None:
            return self.seconds
        return min(self.seconds, max(0.0, self.ended_at - self.kept_at)) if self.repeated_steps else 0.0

    def to_json(self) -> dict[str, Any]:
        """For the details of its task."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def read(cls, value: object) -> AllocationRecord | None:
        """What a task's details hold; `None` for anything else."""
        if not isinstance(value, Mapping):
            return None
        return cls(
            began_at=_moment(value.get("began_at")),
            ended_at=_moment(value.get("ended_at")),
            eligible_at=_moment(value.get("eligible_at")),
            trained_since=_moment(value.get("trained_since")),
            first_step=_whole(value.get("first_step")),
            last_step=_whole(value.get("last_step")),
            kept_step=_whole(value.get("kept_step")),
            kept_at=_moment(value.get("kept_at")),
            nodes=_whole(value.get("nodes")) or 1,
            gpus=_whole(value.get("gpus")) or 0,
            place=str(value.get("place") or ""),
            unannounced=value.get("unannounced") is True,
            cause=str(value.get("cause") or ""),
            notice=str(value.get("notice") or ""),
            noticed_at=_moment(value.get("noticed_at")),
            grace_seconds=_moment(value.get("grace_seconds")),
        )


def _moment(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None  # type: ignore[arg-type]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
