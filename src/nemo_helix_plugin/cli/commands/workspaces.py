"""`nemo workspaces list|create`: the namespaces that jobs and secrets live in."""

from __future__ import annotations

import click

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import columns_option

workspaces = NemoGroup("workspaces", help="The namespaces that jobs and secrets live in.")


@workspaces.command("list", short_help="All workspaces.")
@columns_option
@command_options
def list_workspaces(flags: GlobalFlags, columns: str | None) -> None:
    """List the workspaces that you may see."""
    CommandContext(flags).show_list(
        Operation("workspaces.list", {}, "list"),
        ["name", "description", "jobs", "storage_bytes", "created_at"],
        Paging(all_pages=True, columns=columns),
        empty="no workspace may be seen with this token.",
    )


@workspaces.command("create", short_help="A new workspace.")
@click.argument("name")
@click.option("--description", metavar="TEXT", help="What it is for.")
@command_options
def create(flags: GlobalFlags, name: str, description: str | None) -> None:
    """Create the workspace NAME."""
    from nemo_helix_plugin.access.types import CreateWorkspaceRequest

    given = {"name": name, **({"description": description} if description else {})}
    body = inputs.validated(CreateWorkspaceRequest, given)
    CommandContext(flags).show_entity(Operation("workspaces.create", {"body": body}))
