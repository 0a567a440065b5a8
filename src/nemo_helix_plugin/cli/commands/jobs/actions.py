"""`nemo jobs pause|resume|rerun|control|cancel|delete|update|update-status-details`: acting on jobs."""

from __future__ import annotations

from typing import Any

import click

from nemo_helix_plugin.cli import completing, inputs
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.removal import remove
from nemo_helix_plugin.cli.shared_options import job_card, name_argument


@click.command(short_help="Save a checkpoint and stop, freeing the GPUs.")
@click.argument("name", required=False, shell_complete=completing.job_names)
@click.option("--all", "everything", is_flag=True, help="Every job of the workspace that can be paused.")
@inputs.yes_option
@workspace_option
@command_options
def pause(flags: GlobalFlags, name: str | None, everything: bool, yes: bool) -> None:
    """Ask a job to save a checkpoint and stop; `nemo jobs resume` goes on from there.

    The answer comes at once, the pause when the training step has saved: `nemo jobs watch` shows it.
    """
    call = CommandContext(flags)
    if (name is None) != everything:
        raise click.UsageError("Give the name of one job, or --all.")
    if name is not None:
        _act(call, "jobs.pause_job", {"name": name})
        return
    operation = Operation("jobs.pause_all", {"workspace": call.workspace})
    if call.prints_code(operation):
        return
    inputs.confirm(f"Pause every job of workspace '{call.workspace}' that can be paused?", yes=yes)
    _show_paused(call, record_of(call.ask(operation)))


@click.command(short_help="Go on with a paused job from its checkpoint.")
@name_argument
@workspace_option
@command_options
def resume(flags: GlobalFlags, name: str) -> None:
    """Start the paused step again; training goes on from the checkpoint that the pause saved."""
    _act(CommandContext(flags), "jobs.resume_job", {"name": name})


@click.command(short_help="A new attempt of a failed job, from its newest checkpoint.")
@name_argument
@click.option(
    "--checkpoint", metavar="ID", help="Go on from this one; `nemo jobs checkpoints list` names them."
)
@workspace_option
@command_options
def rerun(flags: GlobalFlags, name: str, checkpoint: str | None) -> None:
    """Start a new attempt of a job that ended in error; training goes on from its newest checkpoint.

    The failed attempt is kept as a record. The configuration stays the same: a job that failed because of it
    fails again.
    """
    _act(CommandContext(flags), "jobs.rerun_job", {"job": name, "checkpoint": checkpoint})


@click.command(short_help="Change how long a paused or failed job keeps its storage.")
@name_argument
@click.option(
    "--pause-ttl-seconds",
    type=click.IntRange(min=0),
    help="How long a paused job keeps its storage, from the pause; up to the platform's maximum.",
)
@click.option(
    "--failed-ttl-seconds",
    type=click.IntRange(min=0),
    help="How long a failed job keeps its storage, from the failure.",
)
@workspace_option
@command_options
def control(
    flags: GlobalFlags, name: str, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None
) -> None:
    """Change how long a job keeps its storage; the time counts from the pause, and starts no new window."""
    from nemo_helix_plugin.jobs.types import JobControl

    given = {"pause_ttl_seconds": pause_ttl_seconds, "failed_ttl_seconds": failed_ttl_seconds}
    found = {key: value for key, value in given.items() if value is not None}
    if not found:
        raise click.UsageError("Missing option '--pause-ttl-seconds'; 1209600 would be 14 days.")
    body = inputs.validated(JobControl, found)
    _act(CommandContext(flags), "jobs.update_job_control", {"name": name}, body=body)


@click.command(short_help="End a job for good.")
@name_argument
@workspace_option
@command_options
def cancel(flags: GlobalFlags, name: str) -> None:
    """End a job for good; its storage is deleted, and it cannot be resumed."""
    call = CommandContext(flags)
    operation = Operation("jobs.cancel_job", {"name": name, "workspace": call.workspace})
    if call.prints_code(operation):
        return
    job = record_of(call.ask(operation))
    call.print_entity(job, job_card(call))
    if job.get("status") == "completed":
        call.report(f"job '{name}' is completed: there was nothing to cancel, and nothing was changed.")


@click.command(short_help="Remove a job that has ended, and what it left.")
@name_argument
@inputs.yes_option
@workspace_option
@command_options
def delete(flags: GlobalFlags, name: str, yes: bool) -> None:
    """Delete a job that has ended, with its storage and records; pinned checkpoints stay."""
    remove(
        flags, "jobs.delete_job", "job", name, yes=yes, besides=" and what it left", done="is being deleted"
    )


@click.command(short_help="Change a job's description, tags or definition.")
@name_argument
@click.option("--description", metavar="TEXT", help="The new description: your note on the job.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Add a tag; can be repeated.")
@click.option("--remove-tag", "gone", metavar="TAG", multiple=True, help="Remove a tag; can be repeated.")
@click.option("--spec", type=inputs.JsonObject(), help="The new spec; goes with --platform-spec.")
@click.option("--platform-spec", type=inputs.JsonObject(), help="The new platform spec; goes with --spec.")
@inputs.input_options
@workspace_option
@command_options
def update(
    flags: GlobalFlags,
    name: str,
    description: str | None,
    tags: tuple[str, ...],
    gone: tuple[str, ...],
    spec: dict[str, Any] | None,
    platform_spec: dict[str, Any] | None,
    input_file: str | None,
    input_data: str | None,
) -> None:
    """Change the description or the tags of a job, or its definition as long as it has no attempt."""
    from nemo_helix_plugin.jobs.types import UpdateHelixJobRequest

    changes = {"add": list(tags), "remove": list(gone)} if tags or gone else None
    given = {"description": description, "tags": changes, "spec": spec, "platform_spec": platform_spec}
    found = inputs.body(input_file, input_data, given)
    if not found:
        raise click.UsageError("There is nothing to change; give --description or --tag, for one.")
    _act(
        CommandContext(flags),
        "jobs.update_job",
        {"name": name},
        body=inputs.validated(UpdateHelixJobRequest, found),
    )


@click.command("update-status-details", short_help="Add to a job's status details, for tools.")
@name_argument
@click.option("--body", "given", type=inputs.JsonObject(), help="What to add.")
@inputs.input_options
@workspace_option
@command_options
def update_status_details(
    flags: GlobalFlags,
    name: str,
    given: dict[str, Any] | None,
    input_file: str | None,
    input_data: str | None,
) -> None:
    """Merge an object into the status details of a job's current attempt."""
    found = inputs.body(input_file, input_data, given or {})
    if not found:
        raise click.UsageError("Give --body, --input-file or --input-data.")
    _act(CommandContext(flags), "jobs.update_job_status_details", {"name": name}, body=found)


def _act(call: CommandContext, method: str, arguments: dict[str, Any], body: Any = None) -> None:
    """Do it, and show the job as it is then."""
    asked = {**arguments, "workspace": call.workspace, "body": body}
    call.show_entity(Operation(method, asked), job_card(call))


def _show_paused(call: CommandContext, answer: dict[str, Any]) -> None:
    """What a pause of everything did: the names on stdout, the refusals beside them."""
    if call.output_format not in {"table", "csv", "markdown"} or call.entity_format == "json":
        call.print_entity(answer)
        return
    for name in answer["pausing"]:
        click.echo(f"{name}  pausing or paused")
    for refused in answer["refused"]:
        click.echo(f"{refused['name']}  {refused.get('status') or ''}  {refused['detail']}")
    if not answer["pausing"] and not answer["refused"]:
        call.report(f"no job of workspace '{call.workspace}' is running.")
