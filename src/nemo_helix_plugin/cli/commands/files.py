"""`nemo files`: filesets, and the files in them."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_cli.completion import folders
from nemo_helix_plugin.cli import inputs, uploading
from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.removal import remove
from nemo_helix_plugin.cli.shared_options import columns_option, name_argument
from nemo_runs.counts import counted

files = NemoGroup("files", help="Filesets: folders of files by name.")


@files.command("create", short_help="A new fileset.")
@name_argument
@click.option("--description", metavar="TEXT", help="What it holds.")
@workspace_option
@command_options
def create(flags: GlobalFlags, name: str, description: str | None) -> None:
    """Make the empty fileset NAME."""
    from nemo_helix_plugin.files.types import CreateFilesetRequest

    given = {"name": name, **({"description": description} if description else {})}
    call = CommandContext(flags)
    body = inputs.validated(CreateFilesetRequest, given)
    call.show_entity(Operation("files.create_fileset", {"body": body, "workspace": call.workspace}))


@files.command("list", short_help="All filesets.")
@columns_option
@workspace_option
@command_options
def list_filesets(flags: GlobalFlags, columns: str | None) -> None:
    """List the filesets of a workspace."""
    call = CommandContext(flags)
    call.show_list(
        Operation("files.list_filesets", {"workspace": call.workspace}, "list"),
        ["name", "description", "created_by", "created_at"],
        Paging(all_pages=True, columns=columns),
        empty=f"no fileset in workspace '{call.workspace}'.",
    )


@files.command("get", short_help="One fileset, with how much is in it.")
@name_argument
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str) -> None:
    """Print the fileset NAME."""
    call = CommandContext(flags)
    call.show_entity(Operation("files.get_fileset", {"name": name, "workspace": call.workspace}))


@files.command("list-files", short_help="The files of a fileset.")
@name_argument
@columns_option
@workspace_option
@command_options
def list_files(flags: GlobalFlags, name: str, columns: str | None) -> None:
    """List the files of the fileset NAME."""
    call = CommandContext(flags)
    call.show_list(
        Operation("files.list_files", {"fileset": name, "workspace": call.workspace}, "list"),
        ["path", "size"],
        Paging(all_pages=True, columns=columns),
        empty=f"the fileset '{name}' has no files.",
    )


@files.command("upload", short_help="Send a file or folder.")
@name_argument
@click.argument("source")
@click.option("--exist-ok", is_flag=True, help="Add to a fileset that is there; its files stay as they are.")
@click.option("--description", metavar="TEXT", help="What it holds.")
@workspace_option
@command_options
def upload(flags: GlobalFlags, name: str, source: str, exist_ok: bool, description: str | None) -> None:
    """Make the fileset NAME of SOURCE, a file or folder here.

    With --exist-ok an interrupted upload goes on: files that exist already are not sent again. Names that
    begin with a dot are left out.
    """
    call = CommandContext(flags)
    path = uploading.local(source, "SOURCE")
    uploading.make_fileset(call, name, description, exist_ok=exist_ok)
    sent, kept = uploading.send(call, name, path)
    call.print_done(
        f"fileset '{name}': {counted(sent, 'file')} sent, {counted(kept, 'was', 'were')} there.",
        {"fileset": f"{call.workspace}/{name}", "sent": sent, "kept": kept},
    )


@files.command("download", short_help="Get the files of a fileset.")
@name_argument
@click.option(
    "-o",
    "--output-dir",
    "target",
    metavar="DIR",
    shell_complete=folders,
    help="Where to put them; NAME here.",
)
@click.option("--file", "only", metavar="PATH", help="This file of the fileset only.")
@workspace_option
@command_options
def download(flags: GlobalFlags, name: str, target: str | None, only: str | None) -> None:
    """Get the files of the fileset NAME, each whole or not at all."""
    call = CommandContext(flags)
    folder = Path(target or name)
    found = uploading.fetch(call, name, folder, only)
    call.print_done(f"{folder}: {counted(len(found), 'file')}", {"folder": str(folder), "files": found})


@files.command("delete", short_help="Remove a fileset with its files.")
@name_argument
@inputs.yes_option
@workspace_option
@command_options
def delete(flags: GlobalFlags, name: str, yes: bool) -> None:
    """Remove the fileset NAME with its files."""
    remove(flags, "files.delete_fileset", "fileset", name, yes=yes, besides=" with its files")


@files.command("delete-file", short_help="Remove one file.")
@name_argument
@click.argument("path")
@inputs.yes_option
@workspace_option
@command_options
def delete_file(flags: GlobalFlags, name: str, path: str, yes: bool) -> None:
    """Remove the file PATH of the fileset NAME."""
    call = CommandContext(flags)
    asked = {"fileset": name, "path": path, "workspace": call.workspace}
    operation = Operation("files.delete_file", asked, "nothing")
    if call.prints_code(operation):
        return
    inputs.confirm(f"Delete '{path}' of fileset '{name}'?", yes=yes)
    call.ask(operation)
    call.print_done(f"'{path}' is deleted.", {"path": path, "deleted": True})
