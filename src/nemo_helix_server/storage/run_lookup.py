"""Which run a step, a task or a checkpoint is about: names alone, read from their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_helix_server.jobs.model import CheckpointRow, Job, Step, StepContext, StepTask
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.store.reader import StoreReader


def new_run(context: StepContext, token: str, executor: str) -> StepRun:
    """A start of a step that is to be, by the executor of that name."""
    step = context.step
    profile = profile_of(step.spec)
    return StepRun(context.workspace, step.job_id, step.attempt_id, step.name, token, executor, profile)


def profile_of(spec: Mapping[str, Any]) -> str:
    """The execution profile that the spec of a step names, as ``<provider>/<profile>``."""
    named = spec["executor"]
    return f"{named['provider']}/{named.get('profile') or 'default'}"


def run_of(context: StepContext) -> StepRun | None:
    """The newest start of a step; `None`: it was never started."""
    step = context.step
    return None if step.task is None else new_run(context, step.task, step.executor)


def step_files(context: StepContext) -> StepRun:
    """What names the files of a step: its newest start, or, of one that was never started, no start."""
    return run_of(context) or new_run(context, "", context.step.executor)


def run_of_task(workspace: str, step: Step, task: StepTask) -> StepRun:
    """One start of a step, the newest or an earlier one."""
    executor = task.executor or step.executor
    names = (workspace, step.job_id, step.attempt_id, step.name, task.name)
    return StepRun(*names, executor, profile_of(step.spec))


def run_of_checkpoint(reader: StoreReader, checkpoint: CheckpointRow) -> StepRun:
    """The start that has written a checkpoint, by the executor that has it now.

    That is the executor of the newest start of its step: what it continues is handed over to it.
    """
    attempt, token = checkpoint.attempt_id or "", checkpoint.task or ""
    names = (checkpoint.workspace, checkpoint.job_id, attempt, checkpoint.step_name, token)
    for later in sorted(reader.attempts.of_job(checkpoint.job_id).items, key=lambda one: -one.seq):
        step = reader.steps.named(later.id, checkpoint.step_name)
        if step is not None and step.task is not None:
            return StepRun(*names, step.executor, profile_of(step.spec))
    return StepRun(*names)


def executors_of_job(reader: StoreReader, job: Job) -> list[StepRun]:
    """One start of a job for each executor that has had any of it; none for a job that was never started."""
    found: dict[str, StepRun] = {}
    for attempt in reader.attempts.of_job(job.id).items:
        steps = {step.id: step for step in reader.steps.of_attempt(attempt.id)}
        for task in reader.tasks.of_attempt(attempt.id):
            if task.step_id in steps:
                run = run_of_task(job.workspace, steps[task.step_id], task)
                found.setdefault(run.executor, run)
    return list(found.values())
