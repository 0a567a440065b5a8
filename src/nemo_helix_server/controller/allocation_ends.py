"""What a start that has ended leaves for the bill of its job and for those that run at its place after it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from nemo_helix_server.executors.base import RunObservation
from nemo_helix_server.jobs.allocations import AllocationRecord, size_of
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.storage import start_remains
from nemo_helix_server.storage.trainer_files import TrainerFiles
from nemo_trainer.contract import EXIT_PAUSED, TRAINING_SINCE


def record_of(context: StepContext, seen: RunObservation, trainer: TrainerFiles | None) -> AllocationRecord:
    """The record of the newest start of a step; ``trainer``: its files, of a step that goes on from them."""
    begun = record_of_begin(context, seen)
    trained: dict[str, Any] = {}
    if trainer is not None and context.step.task is not None:
        trained = _training(trainer, context.step.task, finished=seen.exit_status == 0)
    return replace(
        begun,
        ended_at=seen.ended_at if seen.ended_at is not None else trained.pop("said_at", None),
        unannounced=_is_unannounced(seen),
        cause=seen.interrupted,
        notice=seen.notice.kind if seen.notice else "",
        noticed_at=seen.notice.noticed_at if seen.notice else None,
        grace_seconds=seen.notice.grace_seconds if seen.notice else None,
        **{name: value for name, value in trained.items() if name != "said_at"},
    )


def record_of_begin(context: StepContext, seen: RunObservation) -> AllocationRecord:
    """What is known of the newest start of a step that has begun, perhaps while the service slept."""
    nodes, gpus = size_of(context.step.spec)
    return AllocationRecord(
        began_at=None if seen.never_started else seen.started_at,
        ended_at=None,
        eligible_at=seen.eligible_at,
        nodes=nodes,
        gpus=gpus,
        place=seen.place,
    )


def _is_unannounced(seen: RunObservation) -> bool:
    """Whether its place went without a notice: ahead of a known end, or after one, it would have saved."""
    taken = bool(seen.interrupted) and not seen.never_started and not seen.out_of_memory
    return taken and not seen.timed_out and seen.exit_status not in {0, EXIT_PAUSED}


def _training(trainer: TrainerFiles, token: str, *, finished: bool) -> dict[str, Any]:
    said = start_remains.said(trainer, token)
    last = start_remains.last_step(trainer, token)
    newest = start_remains.newest_whole(trainer)
    own = newest is not None and newest.manifest is not None and newest.manifest.task == token
    since, updated = said.get(TRAINING_SINCE), said.get("updated_at")
    kept_at = newest.manifest.created_at if own and newest is not None and newest.manifest else None
    return {
        "trained_since": _moment(since),
        "said_at": _moment(updated),
        "last_step": last,
        "kept_step": last if finished else newest.step if newest is not None else 0,
        "kept_at": _moment(updated) if finished else kept_at,
    }


def _moment(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None  # type: ignore[arg-type]
