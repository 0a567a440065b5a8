"""`nemo models fetch`: a model and what it is attached to as folders of this machine, for other programs."""

from __future__ import annotations

import click

from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_models.commands.options import base_option, found, model_argument


@click.command(short_help="Get a model and its base model ready on this machine.")
@model_argument
@base_option
@click.option("--with-base", is_flag=True, help="Get the base model of a whole model, too.")
@workspace_option
@command_options
def fetch(flags: GlobalFlags, name: str, base: str | None, with_base: bool) -> None:
    """Fetch the files of the model NAME, and those of its base model, into the user's cache.

    What is there already is not fetched again. With --json: folders, kinds and digests.
    """
    call = CommandContext(flags)
    model = found(call, name, base, with_base=with_base)
    lines = [f"{model.folder}"] + ([f"{model.base.folder}"] if model.base else [])
    call.print_done("\n".join(lines), model.to_json())
