"""Steps of a rerun that need not run again: an earlier attempt completed them and their outputs verify."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor as Threads
from concurrent.futures import Future
from dataclasses import dataclass, field

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs import states
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.storage import run_lookup
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.store.store import JobStore


@dataclass(slots=True)
class Reuse:
    """Verifies outputs beside the controller's loop, since that reads every byte of them."""

    store: JobStore
    executors: Executors
    threads: Threads
    wake: Callable[[], None]
    _looking: dict[str, Future[bool]] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set)

    def of(self, context: StepContext) -> bool:
        """Whether the step need not be started: it is completed now, or that is not known yet."""
        step = context.step
        if context.attempt_seq == 0 or step.task is not None or step.id in self._refused:
            return False
        looking = self._looking.get(step.id)
        if looking is None:
            before = self._completed_before(context)
            if before is None:
                self._refused.add(step.id)
                return False
            looking = self._looking[step.id] = self.threads.submit(self._verified, before)
            looking.add_done_callback(lambda _: self.wake())
        if not looking.done():
            return True
        del self._looking[step.id]
        if looking.exception() is not None or not looking.result():
            self._refused.add(step.id)
            return False
        return self._complete(context)

    def _completed_before(self, context: StepContext) -> StepRun | None:
        """The start of an earlier attempt that completed the same step."""
        step = context.step
        with self.store.read() as unit:
            for attempt in unit.attempts.of_job(step.job_id).items:
                earlier = unit.steps.named(attempt.id, step.name) if attempt.id != step.attempt_id else None
                if earlier and earlier.status is Status.COMPLETED and earlier.spec == step.spec:
                    names = (context.workspace, step.job_id, attempt.id, step.name, earlier.task or "")
                    return StepRun(*names, earlier.executor, run_lookup.profile_of(step.spec))
        return None

    def _verified(self, run: StepRun) -> bool:
        problems = self.executors.files(run).trainer(run).output_problems(deep=True)
        return problems is not None and not problems

    def _complete(self, context: StepContext) -> bool:
        step = context.step
        why = "an earlier attempt completed this step and its outputs verify"
        with self.store.write() as unit:
            unit.statuses.move(
                step.id,
                StatusChange(
                    StatusEvent.OUTPUTS_VERIFIED,
                    who="controller",
                    why=why,
                    expected=states.origins(StatusEvent.OUTPUTS_VERIFIED),
                    version=step.version,
                    reason=StatusReason.OUTPUTS_VERIFIED,
                    details={"message": why},
                ),
            )
        self.wake()
        return True
