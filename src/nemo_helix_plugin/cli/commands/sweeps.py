"""`nemo sweeps`: the jobs of a sweep as one: a table, a chart, pause and resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.client.errors import NemoHTTPError
from nemo_helix_plugin.customization import sweeps as swept
from nemo_helix_plugin.errors import EXIT_DONE
from nemo_helix_plugin.jobs.statuses import HelixJobStatus

Record = Mapping[str, Any]
_PAUSABLE = frozenset(status for status in HelixJobStatus if status.is_under_way and not status.is_stopping)
_NOT_ENDED = frozenset(
    status for status in HelixJobStatus if status.is_under_way or status is HelixJobStatus.PAUSED
)


_metric_option = click.option(
    "--metric",
    "metrics",
    multiple=True,
    default=("*loss",),
    show_default=True,
    metavar="PATTERN",
    help="Metrics to show; can be given several times.",
)


@click.group("sweeps", cls=NemoGroup, short_help="Fine-tuning jobs that differ in a few values.")
def sweeps() -> None:
    """Compare, draw, pause, resume and cancel the jobs of a sweep together.

    `nemo customization BACKEND --job-json FILE --sweep schedule.learning_rate=1e-5,3e-5` makes one.
    """


@sweeps.command("list", short_help="Sweeps of a workspace, newest first.")
@workspace_option
@command_options
def list_sweeps(flags: GlobalFlags) -> None:
    """List the sweeps of a workspace: how many jobs each has, and in which statuses."""
    call = CommandContext(flags)
    operation = _listing(call, {"$exists": True})
    if call.prints_code(operation):
        return
    by_sweep: dict[str, list[Record]] = {}
    for job in _jobs(call, operation):
        by_sweep.setdefault(str(swept.sweep_of(job)), []).append(job)
    rows = [
        {
            "name": name,
            "jobs": len(jobs),
            "statuses": _counts(jobs),
            "swept": ", ".join(swept.values_of(jobs[0])),
            "created_at": min(str(job["created_at"]) for job in jobs),
        }
        for name, jobs in by_sweep.items()
    ]
    call.print_list(
        rows,
        ["name", "jobs", "statuses", "swept", "created_at"],
        empty=f"no sweep in workspace '{call.workspace}'.",
    )


@sweeps.command("get", short_help="A line for each job: its values, its state, its metrics.")
@click.argument("name")
@_metric_option
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str, metrics: tuple[str, ...]) -> None:
    """Compare the jobs of a sweep."""
    call = CommandContext(flags)
    if call.prints_code(_listing(call, name)):
        return
    rows = [_row(job, metrics) for job in _of(call, name)]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    call.print_list([{column: row.get(column) for column in columns} for row in rows], columns)


@sweeps.command(short_help="The jobs' losses on one axis.")
@click.argument("name")
@_metric_option
@workspace_option
@command_options
def plot(flags: GlobalFlags, name: str, metrics: tuple[str, ...]) -> None:
    """Draw a metric of all jobs of a sweep in one chart; curves are named by the values."""
    from nemo_helix_plugin.cli.commands.jobs import plot as drawing
    from nemo_helix_plugin.job_words import curves

    call = CommandContext(flags)
    if call.prints_code(_listing(call, name)):
        return
    found = {label: curves.curves_of(job, metrics) for label, job in _labelled(_of(call, name)).items()}
    if call.output_format in {"csv", "markdown"} or call.entity_format != "table":
        drawing.print_rows(call, found)
        return
    drawn = {label: of_job for label, of_job in found.items() if of_job}
    if drawn:
        click.echo(drawing.drawn(call, drawn, {}, drawing.HEIGHT))
    else:
        call.report(f"no job of sweep '{name}' has a metric like {' or '.join(metrics)} yet.")


@sweeps.command(short_help="Pause every job of a sweep that runs or waits.")
@click.argument("name")
@workspace_option
@command_options
def pause(flags: GlobalFlags, name: str) -> int:
    """Ask every job of a sweep that runs or waits to save a checkpoint and stop."""
    return _act(CommandContext(flags), name, "jobs.pause_job", "not running", _PAUSABLE.__contains__)


@sweeps.command(short_help="Go on with every paused job of a sweep.")
@click.argument("name")
@workspace_option
@command_options
def resume(flags: GlobalFlags, name: str) -> int:
    """Go on with every paused job of a sweep from its checkpoint."""
    return _act(CommandContext(flags), name, "jobs.resume_job", "not paused", HelixJobStatus.PAUSED.__eq__)


@sweeps.command(short_help="End every job of a sweep for good.")
@click.argument("name")
@inputs.yes_option
@workspace_option
@command_options
def cancel(flags: GlobalFlags, name: str, yes: bool) -> int:
    """End every job of a sweep that has not ended; those that completed keep what they made."""
    call = CommandContext(flags)
    inputs.confirm(f"Cancel every job of sweep '{name}' that has not ended?", yes=yes)
    return _act(call, name, "jobs.cancel_job", "ended before", _NOT_ENDED.__contains__)


def _act(call: CommandContext, name: str, method: str, otherwise: str, wanted: Callable[[str], bool]) -> int:
    """Do it to each job that it fits; the others are named with their status, and a refusal ends nothing."""
    if call.output_format == "code":
        raise click.UsageError("-f code shows one call, and this makes one for each job of the sweep.")
    answers = []
    refused = None
    for job in _of(call, name):
        row = {"name": job["name"], "status": job["status"], "done": False, "detail": otherwise}
        if wanted(str(job["status"])):
            one = Operation(method, {"name": job["name"], "workspace": job["workspace"]})
            try:
                row |= {"status": record_of(call.ask(one))["status"], "done": True, "detail": None}
            except NemoHTTPError as error:
                refused = error
                row["detail"] = str(error)
        answers.append(row)
    call.print_list(answers, ["name", "status", "detail"])
    if refused is not None and not any(row["done"] for row in answers):
        raise refused
    return EXIT_DONE


def _labelled(jobs: Sequence[Record]) -> dict[str, Record]:
    """The jobs by their values; by their names too, where some have the same values."""
    labels = [swept.label(job) for job in jobs]
    return {
        label if label and labels.count(label) == 1 else f"{job['name']} {label}".rstrip(): job
        for label, job in zip(labels, jobs, strict=True)
    }


def _of(call: CommandContext, name: str) -> list[Record]:
    """The jobs of a sweep, in the order of their values; raises `click.UsageError` where there is none."""
    found = _jobs(call, _listing(call, name))
    if not found:
        raise click.UsageError(
            f"There is no sweep '{name}' in workspace '{call.workspace}'; `nemo sweeps list` names them."
        )
    return sorted(found, key=lambda job: str(job["name"]))


def _listing(call: CommandContext, sweep: Any) -> Operation:
    """Lists the jobs of a sweep; ``sweep`` is its name, or a condition on names."""
    query = {"filter": {f"custom_fields.{swept.NAME_FIELD}": sweep}, "page_size": 100}
    return Operation("jobs.list_jobs", {"workspace": call.workspace, "query_params": query}, "list")


def _jobs(call: CommandContext, operation: Operation) -> list[Record]:
    return [job.model_dump(mode="json") for job in call.ask(operation).items()]


def _row(job: Record, metrics: Sequence[str]) -> dict[str, Any]:
    from nemo_helix_plugin.job_words import curves, job_state

    row: dict[str, Any] = {"job": job["name"], **swept.values_of(job), "status": job["status"]}
    row["progress"] = job_state.progress(job_state.details(job)) or None
    for curve in curves.curves_of(job, metrics):
        row[f"{curve.name} lowest"] = min(curve.values)
        row[f"{curve.name} now"] = curve.values[-1]
    return row


def _counts(jobs: Sequence[Record]) -> str:
    found = Counter(str(job["status"]) for job in jobs)
    return ", ".join(f"{count} {status}" for status, count in found.most_common())
