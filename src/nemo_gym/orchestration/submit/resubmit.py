"""Queueing a benchmark again in place: same folder, same results, a fresh chain, perhaps a larger budget.

Refused while anything of it is alive, or may be. Each time claims ``resubmits/<n>/``, so that two at once
cannot both queue a job; what was raised is there with its reason, and the job script reads it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.chain.evidence import Evidence
from nemo_gym.errors import ConfigError, GymError, RefusedError, UsageError
from nemo_gym.events import ChainEvent
from nemo_gym.job_paths import JobPaths, ResubmissionPaths, RunPaths
from nemo_gym.orchestration.executors.base import Queued
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.plan.job_script import folder_of
from nemo_gym.orchestration.records import submission_file
from nemo_gym.orchestration.records.locations import chosen
from nemo_gym.orchestration.status.gather import Groups, Scope, gather
from nemo_gym.orchestration.status.report import assess
from nemo_gym.orchestration.submit import cancel
from nemo_runs.clock import SecondsClock, SystemClock, utc_text
from nemo_runs.durations import parse_duration, slurm_time
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees
from nemo_runs.processes.trees import Liveness
from nemo_slurm.errors import SlurmError

if TYPE_CHECKING:
    from nemo_gym.orchestration.config.schema import SubmitConfig
    from nemo_gym.orchestration.status.machines import SubmissionMachine

SCHEMA_VERSION = 1


class NothingLeftError(RefusedError):
    """The benchmark has succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResubmitRequest:
    """What is to be queued again."""

    record: SubmissionRecord
    benchmark: str
    """Of a campaign also the name of a model: all of its benchmarks."""
    by: str
    environ: Mapping[str, str]
    """Holds the telemetry token where the run has telemetry; jobs of this machine inherit all of it."""
    reason: str = ""
    max_retries: int | None = None
    """More retries than before, over the whole life of the benchmark."""
    max_walltime: str | None = None
    """More walltime than before, over the whole life of the benchmark."""

    @property
    def raises(self) -> bool:
        """Whether a budget is to be raised."""
        return self.max_retries is not None or self.max_walltime is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmitted:
    """What was queued."""

    gym_job_id: str
    benchmark: str
    job_id: str
    number: int
    """The how-manieth time."""

    def to_json(self) -> dict[str, Any]:
        """One document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "gym_job_id": self.gym_job_id,
            "benchmark": self.benchmark,
            "job_id": self.job_id,
            "resubmission": self.number,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResubmitReport:
    """What became of all benchmarks of a model."""

    gym_job_id: str
    done: list[Resubmitted]
    succeeded: list[str]
    """Benchmarks that were passed over, since nothing is left to do."""
    problems: list[str]
    """Why some could not be queued."""

    def to_json(self) -> dict[str, Any]:
        """One document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "gym_job_id": self.gym_job_id,
            "resubmitted": [each.to_json() for each in self.done],
            "succeeded": self.succeeded,
            "problems": self.problems,
        }


@dataclass(frozen=True, slots=True)
class _Checked:
    """A benchmark that may be queued again."""

    request: ResubmitRequest
    known: Evidence
    machine: SubmissionMachine
    config: SubmitConfig
    walltime: int | None
    """The raised walltime in seconds."""


@dataclass(frozen=True, slots=True)
class _Budget:
    """What the config and earlier resubmissions allow; `None`: no limit."""

    max_retries: int | None
    max_walltime: int | None
    """Seconds."""


def resubmit(request: ResubmitRequest, machines: Groups, *, clock: SecondsClock | None = None) -> Resubmitted:
    """Queue one benchmark again.

    Raises `RefusedError` while anything of it is alive or may be, when it has succeeded, and when its
    walltime is used up and not raised; `UsageError` for a budget that is not raised or has no reason.
    """
    clock = clock or SystemClock()
    return _queue(_checked(request, machines, clock), clock)


def resubmit_model(
    request: ResubmitRequest, machines: Groups, *, clock: SecondsClock | None = None
) -> ResubmitReport:
    """Queue all benchmarks of a campaign's model again that have not succeeded, each in a job of its own.

    All are looked at before one is queued. Raises as `resubmit` does, and where all have succeeded.
    """
    clock = clock or SystemClock()
    checked: list[_Checked] = []
    succeeded: list[str] = []
    for entry in chosen(request.record, request.benchmark):
        try:
            checked.append(_checked(replace(request, benchmark=entry.benchmark), machines, clock))
        except NothingLeftError:
            succeeded.append(entry.benchmark)
    if not checked:
        raise NothingLeftError(
            f"all benchmarks of {request.benchmark} have succeeded: every rollout is recorded, and nothing "
            "is left to do."
        )
    done, problems = [], []
    for each in checked:
        try:
            done.append(_queue(each, clock))
        except (GymError, RunsError, SlurmError) as error:  # the others do not depend on it
            problems.append(str(error))
    return ResubmitReport(
        gym_job_id=request.record.gym_job_id, done=done, succeeded=succeeded, problems=problems
    )


def _checked(request: ResubmitRequest, machines: Groups, clock: SecondsClock) -> _Checked:
    if request.raises and not request.reason.strip():
        raise UsageError("--reason TEXT: raising a budget needs a reason; it is recorded with the run.")
    scope = Scope(every_job=True, benchmark=request.benchmark)
    known = gather([request.record], machines, scope=scope, clock=clock)[
        request.record.gym_job_id, request.benchmark
    ]
    machine = next(machine for machine, _ in machines.groups([request.record]))
    _refuse(known)
    config = _config(machine, request.record, request.benchmark)
    _check_token(config, request.environ)
    walltime = _checked_budget(request, known, _budget(config, request, known))
    _refuse_elsewhere(machine, known)
    submission_file.refuse_changed(known.job_dir, machine.files.read)
    return _Checked(request, known, machine, config, walltime)


def _queue(checked: _Checked, clock: SecondsClock) -> Resubmitted:
    from nemo_gym.orchestration.plan.build import plan_again

    request, known, machine = checked.request, checked.known, checked.machine
    number = len(known.resubmissions) + 1
    paths = JobPaths(known.job_dir).resubmission(number)
    for again in known.pending:
        # a job that it may have queued is refused a second one by the executor, and is seen once it starts
        error = JobPaths(known.job_dir).resubmission(again.number).queue_error
        machine.files.write(error, b"it was killed before it had noted down a job\n")
    if not machine.files.claim(paths.folder):
        raise RefusedError(_under_way(known, number))
    try:
        _note(machine, request, paths, checked.walltime, utc_text(clock.seconds()))
        machine.files.remove(JobPaths(known.job_dir).cancelled)
    except BaseException:
        # nothing was queued, and nothing of this attempt may stand in the way of the next
        machine.files.unclaim(paths.folder)
        raise
    its = known.benchmark, known.job_dir
    plan = plan_again(checked.config, known.gym_job_id, *its, resubmission=number, user=request.by)
    answer = machine.executor.submit(plan)[0]
    return _recorded(machine, request, known, paths, answer, utc_text(clock.seconds()))


def _refuse(known: Evidence) -> None:
    it = f"{known.benchmark} of {known.gym_job_id}"
    alive = known.alive()
    if alive:
        raise RefusedError(
            f"{it} is alive (job {', '.join(alive)}); wait for its end, or end it with "
            f"gym job cancel {known.gym_job_id} {known.benchmark}."
        )
    unsure = cancel.may_be_alive(known)
    if unsure:
        why = known.silent or "nobody sees it, and it left no end record"
        raise RefusedError(f"it is not known whether job {', '.join(unsure)} of {it} still runs ({why}).")
    for again in known.pending:
        if cancel.owner_of(again) is not Liveness.DEAD:
            raise RefusedError(_under_way(known, again.number))
    status = assess(known)
    complete = known.last is not None and known.last.collected is not None and known.last.collected.complete
    if status.state is BenchmarkState.SUCCEEDED and complete:
        raise NothingLeftError(f"{it} has succeeded: every rollout is recorded, and nothing is left to do.")


def _under_way(known: Evidence, number: int) -> str:
    return (
        f"{known.benchmark} of {known.gym_job_id} is being resubmitted, or that was interrupted: look for "
        f"its job, then remove {JobPaths(known.job_dir).resubmission(number).folder}."
    )


def _refuse_elsewhere(machine: SubmissionMachine, known: Evidence) -> None:
    """A job script acts in the folder for which it was written, wherever it lies now."""
    script = JobPaths(known.job_dir).script
    try:
        text = machine.files.read(script).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return  # the executor says so
    made_for = folder_of(text)
    if made_for is not None and os.path.realpath(made_for) != os.path.realpath(known.job_dir):
        raise RefusedError(
            f"{script} was written for {made_for}: a run directory that was moved or copied "
            "is queued again only where it was submitted to; move it back, or submit it again."
        )


def _config(machine: SubmissionMachine, record: SubmissionRecord, benchmark: str) -> SubmitConfig:
    """The config as it was submitted; of a campaign, what concerns the benchmark's model."""
    from nemo_gym.orchestration.config import campaign
    from nemo_gym.orchestration.config.resolve import resolve

    path = RunPaths(Path(record.run_dir)).resolved_config
    try:
        text = machine.files.read(path)
    except FileNotFoundError:
        message = f"{path} on {machine.label} is not there, so nothing says how to queue the benchmark again."
        raise GymError(message) from None
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(text)
        (part,) = resolve(copy, cwd=Path(folder)).parts
        return campaign.share_of(part.config, benchmark)


def _check_token(config: SubmitConfig, environ: Mapping[str, str]) -> None:
    otel = config.otel
    if otel is not None and otel.enabled and not environ.get(otel.token_env):
        raise ConfigError(
            f"otel.token_env: the variable {otel.token_env} is not set or empty; the token is in no file, so "
            "export it here as for the submission."
        )


def _budget(config: SubmitConfig, request: ResubmitRequest, known: Evidence) -> _Budget | None:
    """The budget as it is, `None` for a benchmark that is not resumable."""
    entry = config.driver.benchmarks.get(request.benchmark)
    chain = entry.chain if entry is not None else None
    if chain is None:
        return None
    cap = chain.max_walltime
    seconds = None if cap is None else parse_duration(cap, where="max_walltime")
    raised = [again.max_retries for again in known.resubmissions if again.max_retries is not None]
    longer = [again.max_walltime for again in known.resubmissions if again.max_walltime is not None]
    return _Budget(max([chain.max_retries, *raised]), None if seconds is None else max([seconds, *longer]))


def _checked_budget(request: ResubmitRequest, known: Evidence, budget: _Budget | None) -> int | None:
    """The raised walltime in seconds, once everything that is asked is right."""
    if budget is None:
        if request.raises:
            raise UsageError(f"{request.benchmark} is not resumable: it has no budget that could be raised.")
        return None
    if request.max_retries is not None and request.max_retries <= (budget.max_retries or 0):
        raise UsageError(
            f"--max-retries {request.max_retries}: it is {budget.max_retries} already, "
            "and can only be raised."
        )
    walltime = None
    if request.max_walltime is not None:
        walltime = parse_duration(request.max_walltime, where="--max-walltime")
        if budget.max_walltime is None or walltime <= budget.max_walltime:
            now = "unlimited" if budget.max_walltime is None else slurm_time(budget.max_walltime)
            raise UsageError(
                f"--max-walltime {request.max_walltime}: it is {now} already, and can only be raised."
            )
    cap, used = walltime or budget.max_walltime, known.walltime or 0
    if cap is not None and used >= cap:
        raise RefusedError(
            f"{slurm_time(used)} of walltime are used and max_walltime is {slurm_time(cap)}; "
            "raise it with --max-walltime TIME --reason TEXT."
        )
    return walltime


def _note(
    machine: SubmissionMachine,
    request: ResubmitRequest,
    paths: ResubmissionPaths,
    walltime: int | None,
    at: str,
) -> None:
    reason = request.reason.strip() or "no reason was given"
    machine.files.write(paths.owner, json.dumps(trees.identify().to_json()).encode() + b"\n")
    if request.max_retries is not None:
        machine.files.write(paths.max_retries, f"{request.max_retries}\n".encode())
    if walltime is not None:
        machine.files.write(paths.max_walltime, f"{walltime}\n".encode())
    machine.files.write(paths.reason, f"{at}\n{request.by}\n{' '.join(reason.split())}\n".encode())


def _recorded(
    machine: SubmissionMachine,
    request: ResubmitRequest,
    known: Evidence,
    paths: ResubmissionPaths,
    answer: Queued,
    at: str,
) -> Resubmitted:
    journal = JobPaths(known.job_dir).events
    if answer.job_id is None:
        error = answer.error or "the executor gave no reason"
        machine.files.write(paths.queue_error, f"{error}\n".encode())
        raise GymError(f"{request.benchmark} of {known.gym_job_id} could not be queued: {error}")
    machine.files.write(paths.queued, f"{answer.job_id}\n".encode())
    event = {
        "at": at,
        "event": ChainEvent.RESUBMITTED.value,
        "job_id": answer.job_id,
        "by": request.by,
        "reason": request.reason.strip() or None,
        "max_retries": request.max_retries,
        "max_walltime": request.max_walltime,
    }
    said = {key: value for key, value in event.items() if value is not None}
    machine.files.append(journal, json.dumps(said).encode() + b"\n")
    number = int(paths.folder.name)
    return Resubmitted(
        gym_job_id=known.gym_job_id, benchmark=known.benchmark, job_id=answer.job_id, number=number
    )
