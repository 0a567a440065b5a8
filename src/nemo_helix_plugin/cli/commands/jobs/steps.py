"""`nemo jobs steps list|get|update-status`: the steps of a job, for tools that work on them."""

from __future__ import annotations

from typing import Any

import click

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.filters import check_status
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import job_option, name_argument, paging_options, query

steps = NemoGroup("steps", help="The steps of a job, for tools that work on them.")

_EXPECTED = "Only if the step is still this one; its id."


def status_of(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is not a status: the callback of an option or argument that takes one."""
    for status in (value or "").split(",") if value else ():
        check_status(status.strip())
    return value


@steps.command("list", short_help="Steps of a job, or of all jobs.")
@click.argument("name", default="-")
@click.option(
    "--filter.status",
    "status",
    metavar="STATUS",
    callback=status_of,
    help="In this status; several with commas.",
)
@click.option("--filter.source", "source", metavar="SOURCE", help="Of jobs from this source.")
@workspace_option
@paging_options
@command_options
def list_steps(
    flags: GlobalFlags,
    name: str,
    status: str | None,
    source: str | None,
    page: int | None,
    page_size: int | None,
    paging: Paging,
) -> None:
    """List the steps of a job; without NAME, or with `-`, those of all jobs."""
    from nemo_helix_plugin.jobs.types import ListStepsQueryParams

    call = CommandContext(flags)
    given = {"status": status.split(",") if status else None, "source": source}
    wanted = query(
        ListStepsQueryParams,
        page=page,
        page_size=page_size,
        filter={key: value for key, value in given.items() if value} or None,
    )
    asked = {"job": name, "workspace": call.workspace, "query_params": wanted}
    call.show_list(
        Operation("jobs.list_steps", asked, "list" if paging.all_pages else "page"),
        ["job", "name", "status", "updated_at"],
        paging,
        empty="no such step.",
    )


@steps.command("get", short_help="One step.")
@name_argument
@job_option
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str, job: str) -> None:
    """Print the step NAME of a job's current attempt."""
    call = CommandContext(flags)
    asked = {"job": job, "name": name, "workspace": call.workspace}
    call.show_entity(Operation("jobs.get_job_step", asked))


@steps.command("update-status", short_help="Change the status of a step.")
@name_argument
@job_option
@click.option("--status", metavar="STATUS", callback=status_of, help="The new status; required in the end.")
@click.option("--expected-step-id", metavar="ID", help=_EXPECTED)
@click.option("--status-details", type=inputs.JsonObject(), help="What to add to its details.")
@click.option("--error-details", type=inputs.JsonObject(), help="What went wrong.")
@inputs.input_options
@workspace_option
@command_options
def update_status(
    flags: GlobalFlags, name: str, job: str, input_file: str | None, input_data: str | None, **given: Any
) -> None:
    """Change the status of the step NAME, as an executor outside of the service would."""
    from nemo_helix_plugin.jobs.types import HelixJobStepStatusUpdate

    body = inputs.validated(HelixJobStepStatusUpdate, inputs.body(input_file, input_data, given))
    call = CommandContext(flags)
    asked = {"job": job, "name": name, "workspace": call.workspace, "body": body}
    call.show_entity(Operation("jobs.update_job_step_status", asked))
