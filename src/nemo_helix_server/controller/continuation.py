"""Going on after a lost place: what the allocations of a step came to, and whether another one is worth it.

An allocation is one start of a step, from its turn to its end. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nemo_helix_server.jobs.states import StatusReason
from nemo_runs.counts import counted, ordinal
from nemo_runs.durations import duration_in_words

ALLOCATIONS = "allocations"
"""Key of a step's status details: `AllocationHistory`."""
FAILURES_TO_EXCLUDE = 2
"""A node that so many allocations of a step failed with gets no other of them."""
PRESUMED_INTERVAL = 1800.0
"""Seconds in which a training that says nothing of its start and its saves should have saved a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuationBudget:
    """What may be spent on going on after lost places."""

    continuations: int = 100
    """How often it resumes in all."""
    seconds: float | None = None
    """For how many seconds in all; `None` = as long as it takes."""
    without_checkpoint: int = 1
    """So many in a row that were long enough for a checkpoint and brought none."""
    first_wait: float = 10.0
    longest_wait: float = 600.0
    """Seconds before the next allocation, after the second in a row without a new checkpoint and the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationHistory:
    """What the allocations of a step in its attempt came to; kept in its status details."""

    ended: int = 0
    """So many have ended."""
    interrupted: int = 0
    """So many of them lost their place."""
    seconds: float = 0.0
    """For how many seconds they ran, together."""
    without_checkpoint: int = 0
    """The last so many were long enough for a checkpoint and brought none."""
    idle: int = 0
    """The last so many brought no new checkpoint, long or short."""
    node_failures: Mapping[str, int] = field(default_factory=dict)
    """How many each node failed."""

    @classmethod
    def read(cls, value: object) -> AllocationHistory:
        """What the status details hold; of anything else the empty history."""
        if not isinstance(value, Mapping):
            return cls()
        seconds, nodes = value.get("seconds"), value.get("node_failures")
        return cls(
            ended=_count(value.get("ended")),
            interrupted=_count(value.get("interrupted")),
            seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
            without_checkpoint=_count(value.get("without_checkpoint")),
            idle=_count(value.get("idle")),
            node_failures={str(name): _count(number) for name, number in nodes.items()}
            if isinstance(nodes, Mapping)
            else {},
        )

    def to_json(self) -> dict[str, Any]:
        """For the status details."""
        return {
            "ended": self.ended,
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
            "without_checkpoint": self.without_checkpoint,
            "idle": self.idle,
            "node_failures": dict(self.node_failures),
            "excluded_nodes": list(self.excluded),
        }

    @property
    def next(self) -> str:
        """The allocation that comes next, such as ``3rd allocation``."""
        return f"{ordinal(self.ended + 1)} allocation"

    @property
    def excluded(self) -> tuple[str, ...]:
        """Nodes that the next allocation must not have."""
        return tuple(sorted(n for n, times in self.node_failures.items() if times >= FAILURES_TO_EXCLUDE))

    def after(self, end: AllocationEnd) -> AllocationHistory:
        """With one more, which lost its place."""
        unsaved = not end.saved and end.outlived
        kept = 0 if end.saved else self.without_checkpoint
        failures = Counter(self.node_failures) + Counter(end.failed_nodes)
        return AllocationHistory(
            ended=self.ended + 1,
            interrupted=self.interrupted + 1,
            seconds=self.seconds + end.seconds,
            without_checkpoint=kept + unsaved,
            idle=0 if end.saved else self.idle + 1,
            node_failures=dict(failures),
        )

    def after_pause(self, end: AllocationEnd) -> AllocationHistory:
        """With one more that was paused: what follows in a row begins again."""
        return replace(self.after(end), interrupted=self.interrupted, without_checkpoint=0, idle=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationEnd:
    """How an allocation went that has ended; times in seconds."""

    seconds: float = 0.0
    """How long its command ran."""
    trained: float | None = None
    """How long of that after its first training step; `None` = it is not known to have finished one."""
    interval: float | None = None
    """Between two saves, as training says it; `None` = it does not."""
    saved: bool = False
    """Whether it brought a newer checkpoint that is whole."""
    failed_nodes: tuple[str, ...] = ()

    @property
    def outlived(self) -> bool:
        """Whether it lasted for its start-up and one save interval."""
        if self.trained is not None and self.interval is not None:
            return self.trained > self.interval
        return self.seconds > (self.interval or 0.0) + PRESUMED_INTERVAL


EMPTY_HISTORY, UNKNOWN_END, DEFAULT_BUDGET = AllocationHistory(), AllocationEnd(), ContinuationBudget()


def spent(history: AllocationHistory, budget: ContinuationBudget) -> tuple[StatusReason, str] | None:
    """Why no other allocation follows, as the end of a sentence about the step; `None` = one does."""
    if history.without_checkpoint > budget.without_checkpoint:
        said = (
            f"lost its place {counted(history.without_checkpoint, 'time')} in a row without a new checkpoint "
            "in between, though it had run for long enough to save one "
            f"(jobs.max_interruptions_without_progress is {budget.without_checkpoint})"
        )
        return StatusReason.INTERRUPTED_WITHOUT_PROGRESS, said
    if history.interrupted > budget.continuations:
        said = (
            f"lost its place for the {ordinal(history.interrupted)} time, and goes on at most "
            f"{counted(budget.continuations, 'time')} (max_continuations)"
        )
        return StatusReason.CONTINUATION_BUDGET_SPENT, said
    if budget.seconds is not None and history.seconds >= budget.seconds:
        said = (
            f"lost its place, and its allocations took {duration_in_words(history.seconds)} of the "
            f"{duration_in_words(budget.seconds)} that they may take together (max_walltime_seconds)"
        )
        return StatusReason.CONTINUATION_BUDGET_SPENT, said
    return None


def wait_before_next(history: AllocationHistory, budget: ContinuationBudget) -> float:
    """Seconds until the next allocation is asked for: none at first, then twice as many each time."""
    if history.idle < 2:
        return 0.0
    return min(budget.first_wait * 2.0 ** min(history.idle - 2, 60), budget.longest_wait)


def wait_left(value: object, age: Callable[[int, str | None], float]) -> float:
    """Seconds that the next allocation has still to wait, by what the status details hold.

    ``age`` gives the seconds since a moment that was stored with its mark.
    """
    wait = value.get("wait_seconds") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(wait, int | float):
        return 0.0
    return max(0.0, float(wait) - age(_count(value.get("since")), value.get("mark")))


def waits_for_a_node(history: AllocationHistory, cause: str, step: int | None) -> str:
    """What it does until then, as in ``waits for a node after it was preempted, 3rd allocation, from …``."""
    origin = "the beginning" if step is None else f"step {step:,}"
    without = f"; without {', '.join(history.excluded)}" if history.excluded else ""
    return f"waits for a node after {cause}, {history.next}, from {origin}{without}"


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
