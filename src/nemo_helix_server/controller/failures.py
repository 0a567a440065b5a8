"""What is written about a step that failed: its error, and whether the same again can be expected to fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_helix_server.controller.decide import Move
from nemo_helix_server.customizer.facts import ENGINE_PROGRAM
from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.jobs import advice, evidence
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.jobs.states import StatusReason
from nemo_helix_server.storage import start_remains
from nemo_helix_server.storage.run_files import NO_PROGRAM, StepRun
from nemo_helix_server.storage.trainer_files import TrainerFiles

_LONGEST_LINE = 500
_TO_EXPLAIN = frozenset({StatusReason.WORKLOAD_FAILED, StatusReason.OUT_OF_MEMORY, StatusReason.TIME_LIMIT})
"""Reasons that the workload's end alone gives; the others are already the whole explanation."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A failure, explained."""

    reason: StatusReason
    error: Mapping[str, Any]
    attempt_details: Mapping[str, Any] = field(default_factory=dict)


def explain(
    move: Move,
    seen: RunObservation | None,
    run: StepRun | None,
    context: StepContext,
    trainer: TrainerFiles,
    tail: Sequence[str],
) -> StepFailure:
    """Explain why a step fails: by what was seen of its end, its log, and what its training has written.

    ``tail`` are the last messages of its log, oldest first.
    """
    reason = move.reason or StatusReason.WORKLOAD_FAILED
    again = rerun(context, trainer)
    if seen is None or run is None or reason not in _TO_EXPLAIN:
        line = last_log_line(tail)
        said = {} if line is None else {"detail": line}
        kind = advice.OF_REASON.get(reason, advice.FailureKind.UNKNOWN)
        return StepFailure(reason, explained(context, kind, move.why, again) | said)
    cause = evidence.classify(_facts(seen, run, context, trainer), tail)
    plain = cause.kind is advice.FailureKind.UNKNOWN
    error = {
        "message": move.why if plain else f"{move.why}: {cause.message}",
        "type": str(cause.reason),
        "detail": last_log_line(tail),
        "advice": cause.advice,
        "exit_code": seen.exit_status,
    }
    known = {key: value for key, value in error.items() if value is not None}
    details = {"resumable": cause.resumable, "non_resumable_reason": cause.rerun_warning}
    return StepFailure(cause.reason, {**known, **advice.rerun_details(cause.kind, again)}, details)


def explained(context: StepContext, kind: advice.FailureKind, message: str, again: str) -> dict[str, Any]:
    """The error of a step that failed without a workload's end, or for a reason that is the whole cause."""
    text = advice.advised(kind, job=context.job_name, workspace=context.workspace)
    said = {} if text is None else {"advice": text}
    return {
        "message": message,
        "type": str(advice.ADVICE[kind].reason),
        **said,
        **advice.rerun_details(kind, again),
    }


def rerun(context: StepContext, trainer: TrainerFiles) -> str:
    """What a rerun of a failed job would do: a clause whose subject is the command."""
    step = context.step
    if not step.pausable:
        return f"runs the step {step.name} again"
    at = start_remains.goes_on_from(trainer, step.attempt_id, None)
    return "begins at its first training step" if at is None else f"goes on from its checkpoint of step {at}"


def _facts(
    seen: RunObservation, run: StepRun, context: StepContext, trainer: TrainerFiles
) -> evidence.ExitFacts:
    step, named = context.step, context.attempt_checkpoint
    said = trainer.progress()
    mine = said.get("task") == run.token
    whole = start_remains.whole_checkpoints(trainer) if step.pausable else []
    executor = step.spec.get("executor") or {}
    command = executor.get("command") or (executor.get("container") or {}).get("command") or ()
    return evidence.ExitFacts(
        exit_status=seen.exit_status,
        signal=seen.signal or None,
        out_of_memory=seen.out_of_memory,
        disk_full=seen.disk_full,
        timed_out=seen.timed_out,
        lost=seen.state is RunState.LOST,
        no_program=_no_program(seen.reason),
        environment_changed="image_digest_warning" in step.status_details,
        contract=mine or step.pausable,
        error_type=str(said.get("error_type")) if mine else None,
        checkpoints=len(whole),
        others=len([one for one in whole if one != named]) if named else max(0, len(whole) - 1),
        named=named is not None,
        memory_limited=bool(((executor.get("resources") or {}).get("limits") or {}).get("memory")),
        program=_shown(str(next(iter(command), "its command"))),
        job=context.job_name,
        workspace=context.workspace,
    )


def _no_program(reason: str) -> str:
    """The name of the program that could not be run, of the reason of such an end; of others nothing."""
    return reason.removeprefix(NO_PROGRAM).rpartition(": ")[0] if reason.startswith(NO_PROGRAM) else ""


def _shown(program: str) -> str:
    if program.startswith(ENGINE_PROGRAM):
        return f"the engine {program.removeprefix(ENGINE_PROGRAM)}"
    return program


def last_log_line(tail: Sequence[str]) -> str | None:
    """The last line of a log that says something, shortened; usually the sentence that explains the end."""
    line = next((line.strip() for line in reversed(tail) if line.strip()), None)
    return line if line is None or len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
