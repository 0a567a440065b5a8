"""`nemo jobs tasks create-or-update|list|get`: the processes of a step, for tools that report them."""

from __future__ import annotations

from typing import Any

import click

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.commands.jobs.steps import status_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import Function, columns_option, job_option, name_argument

tasks = NemoGroup("tasks", help="The processes of a step, for tools that report them.")


def _step_option(function: Function) -> Function:
    return click.option("--step", required=True, metavar="NAME", help="The step's name.")(function)


@tasks.command("list", short_help="All tasks of a step.")
@job_option
@_step_option
@columns_option
@workspace_option
@command_options
def list_tasks(flags: GlobalFlags, job: str, step: str, columns: str | None) -> None:
    """List the tasks of a step; every start of the step made one."""
    call = CommandContext(flags)
    asked = {"job": job, "step": step, "workspace": call.workspace}
    call.show_list(
        Operation("jobs.list_job_step_tasks", asked, "list"),
        ["name", "status", "created_at", "updated_at"],
        Paging(all_pages=True, columns=columns),
        empty=f"step '{step}' has no task yet.",
    )


@tasks.command("get", short_help="One task.")
@name_argument
@job_option
@_step_option
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str, job: str, step: str) -> None:
    """Print the task NAME of a step."""
    call = CommandContext(flags)
    asked = {"job": job, "step": step, "name": name, "workspace": call.workspace}
    call.show_entity(Operation("jobs.get_job_step_task", asked))


@tasks.command("create-or-update", short_help="Report a task.")
@name_argument
@job_option
@_step_option
@click.option("--status", metavar="STATUS", callback=status_of, help="Its status; `pending` if not given.")
@click.option("--status-details", type=inputs.JsonObject(), help="Its progress; merged key by key.")
@click.option("--error-details", type=inputs.JsonObject(), help="What went wrong.")
@click.option("--error-stack", metavar="TEXT", help="Where it went wrong.")
@inputs.input_options
@workspace_option
@command_options
def create_or_update(
    flags: GlobalFlags,
    name: str,
    job: str,
    step: str,
    input_file: str | None,
    input_data: str | None,
    **given: Any,
) -> None:
    """Report the task NAME of a step, as a workload would."""
    from nemo_helix_plugin.jobs.types import HelixJobTaskUpdate

    body = inputs.validated(HelixJobTaskUpdate, inputs.body(input_file, input_data, given))
    call = CommandContext(flags)
    asked = {"job": job, "step": step, "name": name, "workspace": call.workspace, "body": body}
    call.show_entity(Operation("jobs.update_job_step_task", asked))
