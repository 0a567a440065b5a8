"""What to do after an optimizer step: go on, save, stop. Pure, so that every engine decides alike."""

from __future__ import annotations

from typing import NamedTuple

from nemo_trainer.contract import Reason, Want


class LoopDecision(NamedTuple):
    """What follows a step."""

    save: Reason | None = None
    stop: bool = False
    stops_at: int | None = None
    """The step after which a pause that is wanted now will take effect."""


REASONS: tuple[Reason | None, ...] = (None, "periodic", "pause", "final", "asked")


def decide(*, step: int, last: int, boundary: int, want: Want, due: bool) -> LoopDecision:
    """After ``step`` of ``last`` steps, where training can only stop exactly at multiples of ``boundary``."""
    if step >= last:
        return LoopDecision("final", stop=True)
    if want == "stop":
        return LoopDecision(stop=True)
    if step % boundary:
        return LoopDecision(stops_at=min(last, _next(step, boundary)) if want == "pause" else None)
    if want == "pause":
        return LoopDecision("pause", stop=True, stops_at=step)
    if want == "checkpoint":
        return LoopDecision("asked")
    return LoopDecision("periodic" if due else None)


def _next(step: int, boundary: int) -> int:
    return (step // boundary + 1) * boundary


def encode(decision: LoopDecision) -> tuple[int, int]:
    """The part of a decision that other processes need, as numbers to broadcast."""
    return REASONS.index(decision.save), int(decision.stop)


def decode(save: int, stop: int) -> LoopDecision:
    """The decision that was broadcast."""
    return LoopDecision(REASONS[save], bool(stop))
