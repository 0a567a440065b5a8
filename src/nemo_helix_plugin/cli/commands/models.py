"""`nemo models`: models by name, whole ones and adapters."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_cli.completion import folders
from nemo_helix_plugin.cli import inputs, outside_commands, uploading
from nemo_helix_plugin.cli.command_context import CommandContext, Paging, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.installed_group import InstalledGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.removal import remove
from nemo_helix_plugin.cli.shared_options import name_argument, paging_options
from nemo_runs.counts import counted

_BROUGHT = {
    "chat": "Talk to a model in the terminal.",
    "serve": "Serve a model over an OpenAI-compatible API.",
    "export": "Write a model as an adapter, merged weights or a GGUF file.",
    "push": "Put a model into a repository of a hub.",
    "fetch": "Get a model and its base model ready on this machine.",
}
"""Help lines of commands that need an engine; another package of this distribution brings them."""

models = InstalledGroup(
    "models",
    entry_points=outside_commands.MODELS_GROUP,
    known=_BROUGHT,
    help="Models by name: whole ones, and adapters that are attached to one.",
)


@models.command("list", short_help="All models, newest first.")
@paging_options
@workspace_option
@command_options
def list_models(flags: GlobalFlags, page: int | None, page_size: int | None, paging: Paging) -> None:
    """List the models of a workspace."""
    call = CommandContext(flags)
    asked = {"workspace": call.workspace, "page": page, "page_size": page_size}
    call.show_list(
        Operation("models.list", asked, "list" if paging.all_pages else "page"),
        ["name", "kind", "base_model", "created_by_job", "created_at"],
        paging,
        empty=f"no model in workspace '{call.workspace}'.",
    )


@models.command("get", short_help="One model.")
@name_argument
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str) -> None:
    """Print the model NAME."""
    call = CommandContext(flags)
    call.show_entity(Operation("models.get", {"name": name, "workspace": call.workspace}))


@models.command("upload", short_help="Send a model's folder and register it.")
@name_argument
@click.argument("source")
@click.option("--exist-ok", is_flag=True, help="Go on with an upload that was interrupted.")
@workspace_option
@command_options
def upload(flags: GlobalFlags, name: str, source: str, exist_ok: bool) -> None:
    """Send the folder SOURCE into a fileset NAME, and register it as the model NAME."""
    call = CommandContext(flags)
    path = uploading.local(source, "SOURCE")
    uploading.make_fileset(call, name, None, exist_ok=exist_ok)
    sent, kept = uploading.send(call, name, path)
    uploading.register(call, name, name, exist_ok=exist_ok)
    call.print_done(
        f"model '{name}': {counted(sent, 'file')} sent, {counted(kept, 'was', 'were')} there.",
        {"model": f"{call.workspace}/{name}", "sent": sent, "kept": kept},
    )


@models.command("register", short_help="Name a model whose weights are in a fileset.")
@name_argument
@click.option("--fileset", required=True, metavar="NAME", help="The fileset with its weights.")
@click.option("--kind", type=click.Choice(["full", "adapter"]), default="full", help="What it is.")
@click.option("--base-model", metavar="MODEL", help="What an adapter is attached to.")
@click.option("--description", metavar="TEXT", help="What people should read about it.")
@workspace_option
@command_options
def register(
    flags: GlobalFlags, name: str, fileset: str, kind: str, base_model: str | None, description: str | None
) -> None:
    """Register the model NAME."""
    from nemo_helix_plugin.models.types import CreateModelRequest

    given = {"name": name, "fileset": fileset, "kind": kind}
    given |= {"base_model": base_model} if base_model else {}
    given |= {"description": description} if description else {}
    call = CommandContext(flags)
    body = inputs.validated(CreateModelRequest, given)
    call.show_entity(Operation("models.create", {"body": body, "workspace": call.workspace}))


@models.command("download", short_help="Get a model's files.")
@name_argument
@click.option(
    "-o",
    "--output-dir",
    "target",
    metavar="DIR",
    shell_complete=folders,
    help="Where to put them; NAME here.",
)
@workspace_option
@command_options
def download(flags: GlobalFlags, name: str, target: str | None) -> None:
    """Get the files of the model NAME."""
    call = CommandContext(flags)
    model = record_of(call.ask(Operation("models.get", {"name": name, "workspace": call.workspace})))
    folder = Path(target or name)
    found = uploading.fetch(call, model["fileset"], folder, None)
    call.print_done(f"{folder}: {counted(len(found), 'file')}", {"folder": str(folder), "files": found})


@models.command("delete", short_help="Forget a model.")
@name_argument
@inputs.yes_option
@workspace_option
@command_options
def delete(flags: GlobalFlags, name: str, yes: bool) -> None:
    """Forget the model NAME; its fileset stays."""
    remove(flags, "models.delete", "model", name, yes=yes)
