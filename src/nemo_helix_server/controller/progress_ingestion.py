"""Following what running steps write down: metrics, progress and checkpoints, into the store."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_helix_server.controller import metrics_tail
from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.storage import checkpoints, run_lookup
from nemo_helix_server.storage.trainer_files import TrainerFiles
from nemo_helix_server.store.store import JobStore

WHO = "controller"
_EVERY = 1.0
_NOT_SHOWN = {"attempt", "task", "generation", "updated_at"}
"""What a progress says about itself."""


@dataclass(slots=True)
class ProgressIngestion:
    """Looks at the folders of running steps, about once a second each."""

    store: JobStore
    executors: Executors
    error_isolation: ErrorIsolation
    _progress: metrics_tail.TrainingProgress = field(default_factory=metrics_tail.TrainingProgress)
    _catalogued: dict[str, Hashable] = field(default_factory=dict)
    _software: dict[str, str] = field(default_factory=dict)
    """The start of each step whose software is in the store."""
    _due: float = 0.0

    def look(self, contexts: Sequence[StepContext], monotonic: float) -> bool:
        """Bring what running steps have written since into the store; whether that was anything."""
        if monotonic < self._due:
            return False
        self._due = monotonic + _EVERY
        changed = False
        for context in contexts:
            with self.error_isolation.apart(context.job_name):
                changed = self.look_at(context) or changed
        return changed

    def look_at(self, context: StepContext) -> bool:
        """The same for one step, at once."""
        pieces = self.rest(context)
        for piece in pieces:
            with self.store.write() as unit:
                piece.write(unit.series)
        progress = self.progress(context)
        if progress and context.step.task:
            with self.store.write() as unit:
                unit.tasks.move(
                    context.step.id, context.step.task, context.step.status, who=WHO, details=progress
                )
        self.catalogue(context)
        self.note_software(context)
        return bool(pieces or progress)

    def note_software(self, context: StepContext) -> None:
        """Record what the newest start runs in, where that is found out after it has begun."""
        run = run_lookup.run_of(context)
        if run is None or self._software.get(context.step.id) == run.token:
            return
        found = self.executors.software(run)
        if found is None:
            return
        with self.store.write() as unit:
            unit.steps.note_image(context.step.id, found.digest, found.name)
        self._software[context.step.id] = run.token

    def rest(self, context: StepContext) -> list[metrics_tail.MetricsPiece]:
        """Rows of metrics that are not in the store yet."""
        step, trainer = context.step, self._trainer(context)
        if trainer.marks().metrics is None:
            return []
        with self.store.read() as unit:
            offset = unit.series.tail(step.job_id, metrics_tail.tail_name(step.name))
            read = unit.series.tail(step.job_id, metrics_tail.file_name(step.name))
        return list(metrics_tail.pieces(step.job_id, step.name, trainer, offset, read))

    def progress(self, context: StepContext) -> dict[str, Any] | None:
        """What the newest start said of itself, where that has changed."""
        token = context.step.task
        said = self._progress.changed(token, self._trainer(context)) if token else None
        if said is None or said.get("task", token) != token:
            return None
        return {name: value for name, value in said.items() if name not in _NOT_SHOWN}

    def catalogue(self, context: StepContext) -> None:
        """Record the checkpoints of a step, when there are others than the last time."""
        step, trainer = context.step, self._trainer(context)
        mark = trainer.checkpoints_mark()
        key = f"{step.job_id}/{step.name}"
        if self._catalogued.get(key, ()) == (mark or ()):
            return
        found = checkpoints.scan(context, trainer, self.store.clock.now())
        with self.store.write() as unit:
            others = [
                known.id
                for known in unit.checkpoints.of_job(step.job_id)
                if known.step_name != step.name and known.present
            ]
            for checkpoint in found:
                unit.checkpoints.put(checkpoint)
            unit.checkpoints.drop(step.job_id, keep=[*others, *(checkpoint.id for checkpoint in found)])
        self._catalogued[key] = mark

    def over(self, context: StepContext) -> None:
        """The newest start of a step has ended."""
        self._catalogued.pop(f"{context.step.job_id}/{context.step.name}", None)
        self._software.pop(context.step.id, None)
        if context.step.task:
            self._progress.forget(context.step.task)

    def _trainer(self, context: StepContext) -> TrainerFiles:
        run = run_lookup.step_files(context)
        return self.executors.files(run).trainer(run)
