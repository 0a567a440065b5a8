"""`gym eval submit`: one YAML file becomes jobs, one per benchmark."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import duration, json_option, overrides_argument
from nemo_gym.errors import EXIT_DONE, EXIT_ERROR, GymError, UsageError
from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration.executor_kinds import JOBS

if TYPE_CHECKING:
    from nemo_gym.orchestration.config.resolve import ResolvedConfig
    from nemo_gym.orchestration.jobs import SubmissionRecord
    from nemo_gym.orchestration.submit.flow import SubmitContext, SubmitRequest
    from nemo_gym.serving.registered import RegisteredModel

_RULE = "=" * 60


@click.command(short_help="Turn one YAML file into jobs, one per benchmark.")
@click.option("--config", "-c", "path", type=click.Path(path_type=Path), required=True, help="Submit file.")
@click.option("--dry-run", is_flag=True, help="Print every job script, secrets hidden; write nothing.")
@click.option("--resolve-only", is_flag=True, help="Print the resolved config; it can be submitted again.")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Submit this benchmark, or model, only; can be repeated."
)
@click.option(
    "--model",
    metavar="NAME",
    help="A model of the Jobs service (`nemo models list`), or a folder with one, answers in place of the "
    "file's.",
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many tasks of each benchmark.")
@click.option("--walltime", metavar="T", callback=duration, help="Limit of each job: MM, HH:MM:SS, D-HH, …")
@labels_option("Mark the submission; can be repeated.")
@click.option("--again", is_flag=True, help="Submit even when a run with the same config is live.")
@click.option("--follow", is_flag=True, help="Stay and show progress until all jobs have ended.")
@json_option
@overrides_argument
def submit(path: Path, overrides: tuple[str, ...], **flags: Any) -> int:
    """Submit the benchmarks of one YAML file as jobs that live on without this terminal.

    OVERRIDES are key=value (the key is there), +key=value or ++key=value (it may be added).
    """
    return _run(path, overrides, _Flags(**flags))


def _run(path: Path, overrides: tuple[str, ...], flags: _Flags) -> int:
    flags.check()
    from nemo_gym.composition import parse_overrides
    from nemo_gym.orchestration.config.resolve import Narrowing, resolve

    narrowing = Narrowing(
        only=flags.only, limit=flags.limit, walltime=flags.walltime, model=_registered(flags.model)
    )
    resolved = resolve(path, parse_overrides(overrides), narrowing, cwd=Path.cwd())
    if flags.resolve_only:
        click.echo(resolved.to_json() if flags.as_json else resolved.to_yaml().rstrip("\n"))
        return EXIT_DONE
    from nemo_gym.orchestration.submit.flow import SubmitRequest

    if len(resolved.parts) > 1:
        return _to_clusters(resolved.parts, flags)
    (part,) = resolved.parts
    order = SubmitRequest(resolved=part, labels=flags.labels, again=flags.again)
    if flags.dry_run:
        return _dry_run(order, _context(part))
    return _submit(order, _context(part), as_json=flags.as_json, follow=flags.follow)


def _registered(name: str | None) -> RegisteredModel | None:
    """The model of a name, with its files on this machine."""
    if name is None:
        return None
    from nemo_gym.errors import ConfigError
    from nemo_gym.serving import registered

    try:
        return registered.find(name)
    except ConfigError as error:
        raise ConfigError(f"--model {name}: {error}") from error


def _to_clusters(parts: Sequence[ResolvedConfig], flags: _Flags) -> int:
    """A submission for each cluster, with one label in common; all are planned before the first is queued."""
    from nemo_gym.orchestration.config.clusters import CAMPAIGN
    from nemo_gym.orchestration.submit.flow import SubmitRequest, fresh_id, plan, submit

    if flags.follow:
        raise UsageError(
            "--follow: there are several clusters; `gym job watch --label campaign=NAME` shows them all."
        )
    contexts = [_context(part) for part in parts]
    labels = {CAMPAIGN: fresh_id(contexts[0]).removeprefix("gym-job-"), **flags.labels}
    orders = [SubmitRequest(resolved=part, labels=labels, again=flags.again) for part in parts]
    if flags.dry_run:
        for order, context in zip(orders, contexts, strict=True):
            _dry_run(order, context)
        return EXIT_DONE
    for order, context in zip(orders, contexts, strict=True):
        context.preflight(order.resolved.config)
        plan(order, replace(context, report=lambda _sentence: None))
    records, errors = [], {}
    for order, context in zip(orders, contexts, strict=True):
        try:
            records.append(submit(order, context))
        except GymError as error:
            errors[order.resolved.config.cluster] = str(error)
        else:
            if not flags.as_json:
                _print_record(records[-1])
    if flags.as_json:
        document = {
            "schema_version": 1,
            "campaign": labels[CAMPAIGN],
            "records": [record.to_json() for record in records],
            "errors": errors,
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(f"All of them: gym job status --label {CAMPAIGN}={labels[CAMPAIGN]}")
    for cluster, sentence in errors.items():
        click.echo(f"Error: nothing was queued on {cluster}: {sentence}", err=True)
    return EXIT_ERROR if errors or any(record.failed for record in records) else EXIT_DONE


@dataclass(frozen=True)
class _Flags:
    dry_run: bool
    resolve_only: bool
    only: tuple[str, ...]
    model: str | None
    limit: int | None
    walltime: str | None
    labels: dict[str, str]
    again: bool
    follow: bool
    as_json: bool

    def check(self) -> None:
        """Raise `UsageError` for flags that cannot go together."""
        if self.dry_run and self.as_json:
            raise UsageError(
                "--dry-run makes no record, so nothing can be printed as JSON; leave out --json."
            )
        if self.dry_run and self.resolve_only:
            raise UsageError("--dry-run and --resolve-only are two things; give one of them.")
        if self.follow and (self.dry_run or self.resolve_only):
            raise UsageError("--follow: nothing is submitted, so there is nothing to follow; leave it out.")


def _report(sentence: str) -> None:
    click.echo(f"gym: {sentence}", err=True)


def _context(resolved: ResolvedConfig) -> SubmitContext:
    from nemo_gym.orchestration.submit.context import submit_context

    return submit_context(resolved, report=_report)


def _dry_run(order: SubmitRequest, context: SubmitContext) -> int:
    from nemo_gym.orchestration.plan.job_script import render_job
    from nemo_gym.orchestration.plan.overview import plan_lines
    from nemo_gym.orchestration.plan.telemetry import collector_text
    from nemo_gym.orchestration.submit.flow import plan

    submission = plan(order, context)
    click.echo(f"Run directory: {submission.run_dir}")
    for line in plan_lines(submission):
        click.echo(line)
    for job in submission.folders:
        paths = JobPaths(Path(job.benchmark))
        texts = {str(paths.script): render_job(job, redacted=True)}
        if job.otel is not None:
            texts[str(paths.otel)] = collector_text(job.otel.config).decode()
        for name, text in texts.items():
            click.echo(f"{_RULE}\n{name}\n{_RULE}\n{text.rstrip()}")
    click.echo(_RULE)
    return EXIT_DONE


def _submit(order: SubmitRequest, context: SubmitContext, *, as_json: bool, follow: bool) -> int:
    from nemo_gym.orchestration.submit import flow

    record = flow.submit(order, context)
    if as_json:
        click.echo(record.dumps().decode(), nl=False)
        sys.stdout.flush()
    else:
        _print_record(record)
    failed = record.failed
    if failed:
        names = ", ".join(entry.benchmark for entry in failed)
        click.echo(f"Error: {len(failed)} benchmark(s) failed to submit: {names}", err=True)
    status = _follow(record, context, quiet=as_json) if follow else EXIT_DONE
    return EXIT_ERROR if failed else status


def _print_record(record: SubmissionRecord) -> None:
    kind = JOBS.get(record.executor, f"{record.executor} job")
    click.echo(f"Run directory: {record.run_dir}")
    for entry in record.benchmarks:
        if entry.job_id is not None:
            shared = f" (of model {entry.model})" if entry.model is not None else ""
            click.echo(f"submitted {entry.benchmark} → {kind} {entry.job_id}{shared}")
        else:
            click.echo(f"failed {entry.benchmark}: {entry.error}")
    on = f" on {record.hostname}" if record.hostname is not None else ""
    click.echo(f"Record: {RunPaths(Path(record.run_dir)).record}{on}")
    click.echo(f"Status: gym job status {record.gym_job_id}")
    if len(record.failed) == len(record.benchmarks):
        return
    verb = "results" if record.hostname is None else "fetch"
    click.echo(f"Results, when done: gym job {verb} {record.gym_job_id}")


def _follow(record: SubmissionRecord, context: SubmitContext, *, quiet: bool) -> int:
    """Show progress on stderr until all jobs have ended, then the scores.

    1 when a job did not succeed, or ended with 0 and left rollouts that the config does not do without.
    """
    from nemo_gym.chain.observation import JobState
    from nemo_gym.orchestration.executors.base import JobRef
    from nemo_gym.orchestration.results import scores
    from nemo_gym.orchestration.submit.follow import follow

    jobs = {
        entry.benchmark: JobRef(entry.job_id, Path(entry.queue_dir))
        for entry in record.benchmarks
        if entry.job_id is not None
    }
    folders = {entry.benchmark: Path(entry.job_dir) for entry in record.benchmarks}
    ends = follow(context.executor, jobs, folders, stream=sys.stderr) if jobs else {}
    if not quiet:
        click.echo(scores.results_table(scores.results(record, report=_report)))
    succeeded = all(end.state is JobState.SUCCEEDED for end in ends.values())
    return EXIT_DONE if succeeded and _is_whole(record) else EXIT_ERROR


def _is_whole(record: SubmissionRecord) -> bool:
    """Whether nothing is missing of jobs that have ended with 0; what is missing is said."""
    from nemo_gym.chain.endings import BenchmarkState
    from nemo_gym.orchestration.status.gather import gather
    from nemo_gym.orchestration.status.machines import SubmissionMachines
    from nemo_gym.orchestration.status.report import of_submissions

    with SubmissionMachines() as machines:
        (submission,) = of_submissions(gather([record], machines).values())
    failed = [status for status in submission.benchmarks if status.state is BenchmarkState.FAILED]
    for status in failed:
        _report(f"{status.benchmark}: {status.state}: {status.reason}; next: {status.next_command}")
    return not failed
