"""What there is to know about a step before deciding: from its row and from its folders."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.continuation import ALLOCATIONS, AllocationEnd, AllocationHistory
from nemo_helix_server.controller.decide import StepFacts
from nemo_helix_server.controller.step_ages import StepAges
from nemo_helix_server.executors.base import ExecutorError, RunObservation, RunState
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.jobs.states import StatusReason
from nemo_helix_server.storage import checkpoints, run_lookup, start_remains
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.trainer_files import TrainerFiles
from nemo_runs.sizes import size_in_words
from nemo_trainer import contract

INTERRUPTED_TASK = "interrupted_task"
"""Key of a step's status details: the start whose place was taken away last."""
_PAUSES = (StatusReason.PAUSED_BY_USER, StatusReason.PAUSED_FOR_MAINTENANCE)


@dataclass(slots=True)
class FactFinder:
    """Gathers facts; what costs a look at the disk is looked at only where it matters."""

    storage: JobStorage
    executor: Executors
    minimum_free_bytes: int
    ages: StepAges
    sent: dict[str, int] = field(default_factory=dict)
    """Number of the newest request given to each start."""

    def run(self, context: StepContext) -> StepRun | None:
        """The newest start of a step."""
        return run_lookup.run_of(context)

    def trainer(self, context: StepContext) -> TrainerFiles:
        """What the newest start of a step has written, and those before it."""
        run = run_lookup.step_files(context)
        return self.executor.files(run).trainer(run)

    def facts(self, context: StepContext, seen: RunObservation | None) -> StepFacts:
        """What is known about a step, given what is seen of its newest start."""
        step = context.step
        run = self.run(context)
        lifecycle = step.spec.get("lifecycle") or {}
        sent = self._sent(run) if run and step.control_seq else None
        asking = step.status is Status.PAUSING and (sent or 0) < step.control_seq
        staleness = float(lifecycle.get("staleness_timeout_seconds") or 0)
        since = self.ages.since(step)
        return StepFacts(
            name=step.name,
            status=step.status,
            status_since=since,
            started=step.task is not None,
            pause_deadline=float(step.pause_deadline_seconds),
            pause_requested_at=since if "pause_requested_at" in step.status_details else None,
            pause_reason=next(
                (known for known in _PAUSES if known == step.reason), StatusReason.PAUSED_BY_USER
            ),
            control_seq=step.control_seq,
            sent_seq=sent,
            **self._what_was_done(context, run, seen),
            history=AllocationHistory.read(step.status_details.get(ALLOCATIONS)),
            queued_at=self._queued_at(context, run, seen),
            queued_reason=step.status_details.get("queued_reason"),
            proof=self._proof(context, run, seen) if step.status is Status.PAUSING else None,
            pause_space_shortage=self._pause_space_shortage(context) if asking else None,
            staleness=staleness,
            last_sign_at=self._last_sign(context, run)
            if staleness and step.status is Status.ACTIVE
            else None,
        )

    def disk_shortage(self) -> str | None:
        """Why nothing may be started while disk space is short; `None` = there is enough, or nobody knows."""
        free = self.storage.free_bytes()
        if free is None or free >= self.minimum_free_bytes:
            return None
        return (
            f"waits for disk space: {size_in_words(free)} are free where {self.storage.data_dir} is, and "
            f"starts need {size_in_words(self.minimum_free_bytes)}"
        )

    def forget(self, token: str) -> None:
        """The start is over."""
        self.sent.pop(token, None)
        self.ages.forget(token)

    def _sent(self, run: StepRun) -> int | None:
        if run.token not in self.sent:
            newest = None
            with contextlib.suppress(ExecutorError):
                newest = self.executor.last_request(run)
            if newest is None:
                return None
            self.sent[run.token] = newest
        return self.sent[run.token]

    def _proof(self, context: StepContext, run: StepRun | None, seen: RunObservation | None) -> str | None:
        if run is None or seen is None or seen.exit_status != contract.EXIT_PAUSED:
            return None
        return checkpoints.proof(self.trainer(context), run.token, context.step.control_seq).problem

    def _what_was_done(
        self, context: StepContext, run: StepRun | None, seen: RunObservation | None
    ) -> dict[str, Any]:
        """How far a start is that ends, or that is to end."""
        step = context.step
        over = seen is not None and seen.state in {RunState.EXITED, RunState.LOST}
        if run is None or not (over or step.status is Status.PAUSING):
            return {}
        trainer = self.trainer(context)
        facts: dict[str, Any] = {"says_done": start_remains.says_done(trainer, run.token)}
        if over:
            facts["done"] = start_remains.is_done(trainer, run.token)
        if over and seen is not None and seen.exit_status != 0:
            facts |= _how_it_went(seen, start_remains.said(trainer, run.token))
            saved = start_remains.has_saved(trainer, run.token)
            facts["allocation"] = replace(facts["allocation"], saved=saved)
            named = context.attempt_checkpoint
            facts["goes_on_from"] = start_remains.goes_on_from(trainer, step.attempt_id, named)
            facts["last_step"] = start_remains.last_step(trainer, run.token)
        return facts

    def _queued_at(
        self, context: StepContext, run: StepRun | None, seen: RunObservation | None
    ) -> float | None:
        """When a start was last seen in the queue of a scheduler, on the monotonic clock."""
        if run is None or context.step.status is not Status.PENDING:
            return None
        queued = seen is not None and seen.state is RunState.QUEUED
        noted = "queued_reason" in context.step.status_details
        return self.ages.last_queued(run.token, queued=queued, noted=noted)

    def _pause_space_shortage(self, context: StepContext) -> str | None:
        run = run_lookup.step_files(context)
        files = self.executor.files(run)
        needed = self.minimum_free_bytes + checkpoints.newest_size(files.trainer(run))
        free = files.free_bytes(run)
        if free is None or free >= needed:
            return None
        return (
            f"the pause was withdrawn: its checkpoint needs about {size_in_words(needed)} of disk space and "
            f"{size_in_words(free)} are free; free some and pause again"
        )

    def _last_sign(self, context: StepContext, run: StepRun | None) -> float:
        """On the monotonic clock."""
        step = context.step
        if run is None:
            return self.ages.since(step)
        files = self.executor.files(run)
        signs = files.trainer(run).marks()
        return self.ages.last_change(run.token, (signs.progress, signs.metrics, files.log(run).mark()))


def _how_it_went(seen: RunObservation, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a start that has ended came to, by what was seen of it and what its training said."""
    began, ended = seen.started_at, seen.ended_at
    since, updated = _number(said.get("training_since")), _number(said.get("updated_at"))
    if ended is None:
        ended = updated
    interval = said.get("checkpoint_interval")
    because = said.get("leaves_because")
    allocation = AllocationEnd(
        seconds=max(0.0, ended - began) if began is not None and ended is not None else 0.0,
        trained=max(0.0, ended - since) if since is not None and ended is not None else None,
        interval=_number(interval.get("seconds")) if isinstance(interval, Mapping) else None,
        failed_nodes=seen.failed_nodes,
    )
    return {"allocation": allocation, "leaves_because": because if isinstance(because, str) else None}


def _number(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None  # type: ignore[arg-type]
