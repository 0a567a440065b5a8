"""The group `nemo customization`."""

from __future__ import annotations

from typing import Any

import click

from nemo_cli.lazy_group import Lazy
from nemo_helix_plugin import errors
from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.commands.customization.submitting import given_uploads, send_all, upload_options
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output import documents
from nemo_helix_plugin.customization import backends, common_fields

_HERE = "nemo_helix_plugin.cli.commands.customization"
_COMMANDS = {
    **{name: Lazy(f"{_HERE}.methods:{name}", summary) for name, summary in common_fields.SUMMARIES.items()},
    **{name: Lazy(f"{_HERE}.submitting:{name}", backends.summary(name)) for name in backends.names()},
    "recipes": Lazy(f"{_HERE}.recipes:recipes", "Specs that ship."),
    "job-templates": Lazy(f"{_HERE}.templates:templates", "Saved specs."),
}


@click.group("customization", cls=NemoGroup, lazy=_COMMANDS, invoke_without_command=True)
@upload_options()
@workspace_option
@command_options
def customization(flags: GlobalFlags, exist_ok: bool, **sources: Any) -> int | None:
    """Submit fine-tuning jobs.

    Without a command, --upload-model, --upload-dataset and --upload-environment send files, make filesets and
    models of them, and print references to write into specs, as JSON.
    """
    ctx, uploads = click.get_current_context(), given_uploads(sources)
    if ctx.invoked_subcommand is not None:
        if uploads:
            raise click.UsageError("Give the upload options after the backend's name.", ctx)
        ctx.obj = flags
        return None
    if not uploads:
        click.echo(ctx.get_help(), err=True)
        return errors.EXIT_USAGE
    click.echo(documents.json_text(send_all(CommandContext(flags), uploads, exist_ok=exist_ok)))
    return errors.EXIT_DONE
