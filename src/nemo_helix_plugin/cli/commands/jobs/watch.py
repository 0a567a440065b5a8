"""`nemo jobs watch`: a job's status and log until it ends, or until it pauses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from nemo_helix_plugin import errors
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import job_card, log_options, name_argument
from nemo_helix_plugin.jobs.statuses import HelixJobStatus

if TYPE_CHECKING:
    from nemo_helix_plugin.cli.commands.jobs.deduplication import Deduplication

_DOCUMENTS = frozenset({"json", "yaml", "raw", "csv", "markdown"})
_ENDS = frozenset(status for status in HelixJobStatus if not status.is_under_way)
_GOES_ON = frozenset(status for status in HelixJobStatus if status.can_go_on)


@dataclass(frozen=True)
class Watch:
    """What is followed, and for how long."""

    name: str
    timeout: float | None = None
    poll_interval: float = 3.0
    include_logs: bool = True
    include_history: bool = True
    attempt_id: str | None = None
    step_id: str | None = None
    task_id: str | None = None
    limit: int | None = None
    through_pauses: bool = False
    """Whether a pause, or an error that can be rerun, is waited through."""
    stream: bool = False
    report_to_stderr: bool = False
    """Whether lines go to stderr, because stdout is for the job."""
    shows_job: bool = True
    """Whether the job is printed at its end."""


@click.command(short_help="Follow a job's status and log until it ends.")
@name_argument
@click.option(
    "--follow", is_flag=True, help="Go on through pauses and reruns, until the job is done for good."
)
@log_options
@click.option("--limit", type=click.IntRange(min=1, max=10000), help="Log lines to fetch at once.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds after which to stop watching.")
@click.option(
    "--poll-interval",
    type=click.FloatRange(min=0.1),
    default=3.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--history/--no-history", default=True, help="Whether to show the log so far, too.")
@click.option("--stream", is_flag=True, help="One JSON record a line, for every status and log line.")
@workspace_option
@command_options
def watch(flags: GlobalFlags, name: str, follow: bool, history: bool, **given: Any) -> int:
    """Show a line for every status of a job and its log as it comes, until it ends.

    \b
    Exit status: 0 completed; 1 error, cancelled or out of time; 75 paused.
    With --follow a paused job, and a failed one that can still be rerun, is waited for.
    Ctrl-C ends the watch with 130; the job goes on.
    With --json the job is printed at the end, and nothing else.
    """
    call = CommandContext(flags)
    wanted = Watch(name, include_history=history, through_pauses=follow, **given)
    if call.prints_code(Operation("jobs.watch_job", _arguments(call, wanted), "events")):
        return errors.EXIT_DONE
    return run(call, wanted)


def run(call: CommandContext, wanted: Watch) -> int:
    """Watch until the end, and return the exit status that says which end it was."""
    from nemo_helix_plugin.cli.commands.jobs.screen import LineScreen, Records, Silent

    document = call.flags.output_format in _DOCUMENTS
    shown = (
        Records()
        if wanted.stream
        else Silent()
        if document and not wanted.report_to_stderr
        else LineScreen(call, stderr=wanted.report_to_stderr)
    )
    try:
        job = _to_the_end(call, wanted, shown)
    except KeyboardInterrupt:
        shown.pause()
        stays = "is still paused" if shown.latest == "paused" else "still runs"
        call.report(
            f"the watch is over, job '{wanted.name}' {stays}; `nemo jobs watch {wanted.name} "
            f"--workspace {call.workspace}` follows it again, `nemo jobs cancel` ends it."
        )
        return errors.EXIT_INTERRUPTED
    shown.pause()
    if wanted.shows_job and ((document and not wanted.stream) or wanted.report_to_stderr):
        call.print_entity(job, job_card(call))
    return _ended(call, job)


def _to_the_end(call: CommandContext, wanted: Watch, shown: Any) -> Mapping[str, Any]:
    """Show what happens until the job ends; return it as it is then."""
    from nemo_helix_plugin.cli.commands.jobs.deduplication import Deduplication

    until = None if wanted.timeout is None else time.monotonic() + wanted.timeout
    fresh = Deduplication(since=None if wanted.include_history else datetime.now(UTC))
    while True:
        fresh.begin()
        for event in _events(call, wanted):
            _show(call, event, shown, fresh)
        job = _job(call, wanted.name)
        if not (wanted.through_pauses and _may_go_on(job)):
            return job
        shown.pause()
        call.report(_waiting(job))
        job = _changed(call, wanted, job, until)
        if not (_may_go_on(job) or job["status"] not in _ENDS):
            return job
        left = None if until is None else max(0.0, until - time.monotonic())
        wanted = replace(wanted, include_history=True, timeout=left)


def _show(call: CommandContext, event: Any, shown: Any, fresh: Deduplication) -> None:
    if event.kind == "log":
        if fresh.takes(event):
            shown.log(event)
    elif event.kind == "status":
        shown.latest = str(event.status)
        shown.status(event)
        if event.status == "paused" and not event.terminal:
            shown.pause()
            call.report(_waiting(_job(call, event.job_name)))
    else:
        shown.pause()
        call.report(event.message)


def _events(call: CommandContext, wanted: Watch) -> Iterator[Any]:
    arguments = {**_arguments(call, wanted), "include_progress": True}
    with call.asking():
        yield from call.ask(Operation("jobs.watch_job", arguments, "events"))


def _arguments(call: CommandContext, wanted: Watch) -> dict[str, Any]:
    """What the client's watch is given; what is as its default is left out."""
    default = Watch(wanted.name)
    ours = {"name", "stream", "report_to_stderr", "shows_job"}
    given = {key: value for key, value in vars(wanted).items() if key not in ours}
    changed = {key: value for key, value in given.items() if value != getattr(default, key)}
    return {"name": wanted.name, "workspace": call.workspace, **changed}


def _job(call: CommandContext, name: str) -> Mapping[str, Any]:
    found = record_of(call.ask(Operation("jobs.get_job", {"name": name, "workspace": call.workspace})))
    assert isinstance(found, Mapping)
    return found


def _may_go_on(job: Mapping[str, Any]) -> bool:
    """Whether a resume or rerun is still possible."""
    from nemo_helix_plugin.job_words import job_state, times

    if job["status"] not in _GOES_ON or job_state.is_reclaimed(job):
        return False
    until = times.parsed(job.get("storage_expires_at"))
    return until is None or until > datetime.now(UTC)


def _changed(
    call: CommandContext, wanted: Watch, job: Mapping[str, Any], until: float | None
) -> Mapping[str, Any]:
    """Wait until the job is not as it was, or can go on no more."""
    from nemo_helix_plugin.jobs.watch_types import JobWatchTimeoutError

    before = (job["status"], job.get("attempt_id"))
    while (job["status"], job.get("attempt_id")) == before and _may_go_on(job):
        if until is not None and time.monotonic() >= until:
            raise JobWatchTimeoutError(
                f"job '{wanted.name}' was still {job['status']} after {wanted.timeout:g} s."
            )
        time.sleep(wanted.poll_interval)
        job = _job(call, wanted.name)
    return job


def _waiting(job: Mapping[str, Any]) -> str:
    from nemo_helix_plugin.job_words import job_state

    kept = job_state.kept(job, datetime.now(UTC))
    verb = "resumed" if job["status"] == "paused" else "rerun"
    return f"job '{job['name']}' waits to be {verb}; its storage is {kept or 'kept'}."


def _ended(call: CommandContext, job: Mapping[str, Any]) -> int:
    """Say how it ended and what could be done, and return the exit status."""
    from nemo_helix_plugin.job_words import job_state, trained_models

    status, name = job["status"], job["name"]
    if status == "completed":
        if model := trained_models.trained_model(job):
            call.report(f"job '{name}' has made the model {model}; {job_state.how_it_goes_on(job)}.")
        return errors.EXIT_DONE
    kept = job_state.kept(job, datetime.now(UTC))
    storage = f"; its storage {'' if kept.startswith('was') else 'is '}{kept}" if kept else ""
    how = job_state.how_it_goes_on(job)
    go_on = f"; {how}" if how else ""
    if status == "paused":
        call.report(f"job '{name}' is paused{storage}{go_on}.")
        return errors.EXIT_PAUSED
    why = job_state.failure(job) or job_state.reason(job)
    call.report(f"job '{name}' ended in {status}{f': {why.rstrip(chr(46))}' if why else ''}{storage}{go_on}.")
    return errors.EXIT_LOCAL
