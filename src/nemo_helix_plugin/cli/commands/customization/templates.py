"""`nemo customization job-templates`: saved specs."""

from __future__ import annotations

import click

from nemo_cli.completion import files
from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.commands.customization import specs
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.removal import remove
from nemo_helix_plugin.cli.shared_options import name_argument, paging_options
from nemo_helix_plugin.customization import backends

templates = NemoGroup("job-templates", help="Saved specs; they are validated when they are submitted.")


@templates.command("create", short_help="Save a spec.")
@name_argument
@click.option(
    "--backend", required=True, type=click.Choice(backends.names()), help="Which backend it is for."
)
@click.option(
    "--job-json", required=True, metavar="FILE", shell_complete=files, help="The spec; `-` is standard input."
)
@click.option("--description", metavar="TEXT", help="What people should read about it.")
@workspace_option
@command_options
def create(flags: GlobalFlags, name: str, backend: str, job_json: str, description: str | None) -> None:
    """Save a spec under NAME."""
    from nemo_helix_plugin.customization.requests import CreateJobTemplateRequest

    given = {"name": name, "backend": backend, "config": specs.read_object(job_json, "--job-json").value}
    given |= {"description": description} if description else {}
    call = CommandContext(flags)
    body = inputs.validated(CreateJobTemplateRequest, given)
    call.show_entity(Operation("customization.templates.create", {"body": body, "workspace": call.workspace}))


@templates.command("list", short_help="All saved specs.")
@paging_options
@workspace_option
@command_options
def list_templates(flags: GlobalFlags, page: int | None, page_size: int | None, paging: Paging) -> None:
    """List the saved specs of a workspace."""
    call = CommandContext(flags)
    asked = {"workspace": call.workspace, "page": page, "page_size": page_size}
    call.show_list(
        Operation("customization.templates.list", asked, "list" if paging.all_pages else "page"),
        ["name", "backend", "description", "created_at"],
        paging,
        empty=f"no job template in workspace '{call.workspace}'.",
    )


@templates.command("get", short_help="One saved spec.")
@name_argument
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str) -> None:
    """Print the saved spec NAME."""
    call = CommandContext(flags)
    call.show_entity(Operation("customization.templates.get", {"name": name, "workspace": call.workspace}))


@templates.command("delete", short_help="Forget a saved spec.")
@name_argument
@inputs.yes_option
@workspace_option
@command_options
def delete(flags: GlobalFlags, name: str, yes: bool) -> None:
    """Forget the saved spec NAME."""
    remove(flags, "customization.templates.delete", "job template", name, yes=yes)
