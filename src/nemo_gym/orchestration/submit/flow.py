"""The flow of ``gym eval submit``: check, plan, refuse a twin, stage, queue, record.

Everything that can be wrong is found before anything is written. From the moment of queueing an interruption
waits until the record is written, since a queued job that nothing names cannot be found again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym import job_paths
from nemo_gym.errors import BusyError
from nemo_gym.orchestration.config import gym_install, rules
from nemo_gym.orchestration.plan.benchmark_runs import load_runs
from nemo_gym.orchestration.plan.build import PlanContext, plan_submission
from nemo_gym.orchestration.submit import submitting_host
from nemo_gym.orchestration.submit.destination import Destination, ThisMachine
from nemo_gym.orchestration.submit.references import with_references
from nemo_runs.secret_refs import redact

if TYPE_CHECKING:
    from nemo_gym.orchestration.config.resolve import ResolvedConfig
    from nemo_gym.orchestration.config.schema import SubmitConfig
    from nemo_gym.orchestration.executors.base import JobExecutor, Queued
    from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
    from nemo_gym.orchestration.plan.values import Submission
    from nemo_gym.orchestration.records.index import Reporter
    from nemo_gym.provenance import Provenance

_ATTEMPTS = 20
"""How often another id is tried when one is taken; each has 24 random bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """What is to be submitted."""

    resolved: ResolvedConfig
    labels: Mapping[str, str] = field(default_factory=dict)
    again: bool = False
    """Submit even when a run with the same config is live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitContext:
    """Everything around a submission that acts, so that tests can hand in their own."""

    executor: JobExecutor
    stage: Callable[[Submission], None]
    """Writes the run directory; raises `FileExistsError` when the name is taken."""
    provenance: Callable[[], Provenance]
    environ: Mapping[str, str]
    cwd: Path
    report: Reporter
    destination: Destination = field(default_factory=ThisMachine)
    """The machine that holds the run directories."""
    preflight: Callable[[SubmitConfig], None] = lambda _config: None
    """The cheap part of `gym eval check`: raises `ConfigError` for what cannot be."""
    ready: Callable[[], None] = lambda: None
    """Makes sure of what queueing needs of this machine; raises `GymError`. Called once all is planned."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    token: Callable[[], str] = lambda: os.urandom(3).hex()


def plan(order: SubmitRequest, context: SubmitContext) -> Submission:
    """Check everything and plan the submission under a fresh id; nothing is written."""
    config = order.resolved.config
    rules.refuse_unsupported(config, context.executor)
    for warning in rules.warnings(config):
        context.report(f"warning: {warning}")
    runs = with_references(load_runs(order.resolved, cwd=context.cwd))
    context.destination.check(config, context.environ)
    gym = context.destination.gym_program(config)
    for warning in gym_install.warnings(config, gym):
        context.report(f"warning: {warning}")
    keeps = context.destination.keeps(config, gym)
    around = PlanContext(gym=gym, user=submitting_host.username(), environ=context.environ, keeps=keeps)
    gym_job_id = fresh_id(context)
    run_dir, contained = Path(config.job.output_path) / gym_job_id, config.driver.container is not None
    there = context.destination.localized(runs, run_dir, contained=contained)
    return plan_submission(config, there, gym_job_id, around)


def submit(order: SubmitRequest, context: SubmitContext) -> SubmissionRecord:
    """Submit and record. An entry of the record without ``job_id`` says why it could not be queued.

    Raises `BusyError` for a twin of a live run, and `SubmitError` when jobs were queued that could not be
    recorded.
    """
    from nemo_gym.orchestration.records import index, submission_file
    from nemo_gym.orchestration.submit import duplicates

    context.preflight(order.resolved.config)
    submission = plan(order, context)
    with duplicates.one_at_a_time(order.resolved.digest):
        if not order.again:
            duplicates.refuse_duplicate(order.resolved.digest, context.executor)
        context.ready()
        submission = _staged(submission, order, context)
        with _uninterrupted():
            known = _record(order, context, submission, ())
            submission_file.write(known, order.resolved.to_yaml(), submission, to=context.destination.write)
            queued = context.executor.submit(submission)
            record = replace(known, benchmarks=_entries(context, submission, queued))
            index.write_records(
                record, order.resolved.to_yaml(), report=context.report, write=context.destination.write
            )
    return record


def fresh_id(context: SubmitContext) -> str:
    """An id that the local index does not hold: UTC time and six random hex digits."""
    for _ in range(_ATTEMPTS):
        gym_job_id = f"gym-job-{context.now().astimezone(UTC):%Y%m%dT%H%M%SZ}-{context.token()}"
        if not job_paths.index_entry(gym_job_id).exists():
            return gym_job_id
    raise BusyError("no free id for this submission was found; try again in a second.")


def _staged(submission: Submission, order: SubmitRequest, context: SubmitContext) -> Submission:
    """Write the run directory; when somebody has that name already, plan again under another."""
    for _ in range(_ATTEMPTS):
        try:
            context.stage(submission)
        except FileExistsError:
            submission = plan(order, dataclasses.replace(context, report=lambda _sentence: None))
        else:
            return submission
    raise BusyError(f"no free run directory in {submission.run_dir.parent} was found; try again in a second.")


def _record(
    order: SubmitRequest, context: SubmitContext, submission: Submission, queued: Sequence[Queued]
) -> SubmissionRecord:
    from nemo_gym.orchestration.jobs import SubmissionRecord

    origin = context.provenance()
    if origin.commit is None:
        context.report(f"warning: the commit of this Gym is not known: {origin.unknown_because}.")
    stamp = datetime.strptime(submission.gym_job_id.split("-")[2], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return SubmissionRecord(
        gym_job_id=submission.gym_job_id,
        gym_version=origin.version,
        gym_commit=origin.commit,
        submitted_at=f"{stamp:%Y-%m-%dT%H:%M:%SZ}",
        run_dir=str(submission.run_dir),
        cluster=submission.cluster,
        executor=context.executor.name,
        submitted_by=submitting_host.username(),
        hostname=context.destination.hostname,
        benchmarks=_entries(context, submission, queued),
        labels=dict(order.labels),
        config_digest=order.resolved.digest,
    )


def _entries(
    context: SubmitContext, submission: Submission, queued: Sequence[Queued]
) -> tuple[BenchmarkEntry, ...]:
    answers = {answer.benchmark: answer for answer in queued}
    hidden = _hidden(submission, context.environ)
    return tuple(
        replace(
            _entry(job.benchmark, job.job_dir, answers.get(job.benchmark), hidden), model=job.shared or None
        )
        for job in submission.jobs
    )


def _entry(benchmark: str, job_dir: Path, answer: Queued | None, hidden: list[str]) -> BenchmarkEntry:
    from nemo_gym.orchestration.jobs import BenchmarkEntry

    job_id = answer.job_id if answer is not None else None
    error = None
    if job_id is None:
        reason = answer.error if answer is not None else "the executor gave no answer for this benchmark"
        error = redact(reason or "the executor gave no reason", hidden)
    return BenchmarkEntry(benchmark=benchmark, job_dir=str(job_dir), job_id=job_id, error=error)


def _hidden(submission: Submission, environ: Mapping[str, str]) -> list[str]:
    """The values that no text of a record may hold."""
    values = [value.reveal() for job in submission.folders for value in job.secrets.values()]
    otel = submission.config.otel
    token = environ.get(otel.token_env, "") if otel is not None else ""
    return [*values, *([token] if token else [])]


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, lambda number, _frame: caught.append(number)) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    if caught:
        signal.raise_signal(signal.Signals(caught[0]))
