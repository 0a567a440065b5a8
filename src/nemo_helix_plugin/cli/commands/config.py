"""`nemo config view|set|use-context|current-context|delete-context`: the contexts file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nemo_cli.completion import files
from nemo_helix_plugin.cli import completing, inputs
from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.global_options import FORMATS, TIMESTAMPS, GlobalFlags, command_options
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output import documents
from nemo_helix_plugin.errors import NemoError

config = NemoGroup("config", help="Contexts: which service, as whom, in which workspace, and how to print.")


@config.command(short_help="What the contexts file says.")
@click.option("--all-contexts", is_flag=True, help="Not the current context alone.")
@command_options
def view(flags: GlobalFlags, all_contexts: bool) -> None:
    """Print the contexts file without its secrets: as YAML, or as JSON with --json."""
    from nemo_helix_plugin.config import contexts, file

    found = contexts.view(context=flags.context, all_contexts=all_contexts)
    if flags.output_format in {"json", "raw"}:
        click.echo(documents.json_text(found))
    elif found:
        click.echo(documents.yaml_text(found))
    else:
        sentence = f"{file.default_path()} is not there yet; `nemo config set --base-url URL` makes it"
        click.echo(f"nemo: {sentence}.", err=True)


@config.command("set", short_help="Make or change a context.")
@click.option(
    "--context",
    metavar="NAME",
    shell_complete=completing.context_names,
    help="Which one; the current one if not given.",
)
@click.option("--base-url", metavar="URL", help="Address of the service.")
@click.option(
    "--certificate-authority",
    metavar="FILE",
    shell_complete=files,
    help="Whose signature on its certificate is trusted.",
)
@click.option("--access-token", "--api-key", "access_token", metavar="SOURCE", help=inputs.SOURCE_HELP)
@click.option("-w", "--workspace", metavar="NAME", help="The workspace when none is named.")
@click.option(
    "-f",
    "--output-format",
    "--output",
    "output_format",
    type=click.Choice(FORMATS),
    help="How results are printed.",
)
@click.option("--timestamp-format", type=click.Choice(TIMESTAMPS), help="How tables show times.")
@click.option("--truncate/--no-truncate", default=None, help="Whether tables cut long values.")
@click.option("--color-output/--no-color-output", default=None, help="Whether terminals get colours.")
@click.option("--activate", is_flag=True, help="Make it the current one.")
def set_context(context: str | None, activate: bool, access_token: str | None, **given: Any) -> None:
    """Make a context, or change it; the first one becomes the current one.

    What is not given stays as it is.
    """
    from nemo_helix_plugin.config import contexts

    outer = click.get_current_context().find_object(GlobalFlags) or GlobalFlags()
    name = context or outer.context
    authority = given.get("certificate_authority")
    if authority is not None:
        if not Path(authority).is_file():
            raise click.UsageError(f"--certificate-authority {authority}: there is no such file.")
        given["certificate_authority"] = str(Path(authority).absolute())
    token = inputs.secret(access_token, "--access-token") if access_token is not None else None
    changes = contexts.Changes(access_token=token, **given)
    if changes == contexts.Changes() and not activate:
        raise click.UsageError("There is nothing to set; give --base-url, for one.")
    made = contexts.set_context(changes, context=name, activate=activate)
    click.echo(f"nemo: context '{made}' is set.", err=True)


@config.command("use-context", short_help="Make a context the current one.")
@click.argument("name", shell_complete=completing.context_names)
def use_context(name: str) -> None:
    """Make the context NAME the one that is used when none is named."""
    from nemo_helix_plugin.config import contexts

    contexts.use_context(name)
    click.echo(f"nemo: context '{name}' is the current one.", err=True)


@config.command("current-context", short_help="Which context is used.")
@command_options
def current_context(flags: GlobalFlags) -> None:
    """Print the name of the context that commands use now, environment included."""
    found = CommandContext(flags).context.context
    if found is None:
        raise NemoError("no context is set; `nemo config set --base-url URL` makes one")
    click.echo(documents.json_text({"current_context": found}) if flags.output_format == "json" else found)


@config.command("delete-context", short_help="Remove a context.")
@click.argument("name", shell_complete=completing.context_names)
@click.option("--prune-orphans", is_flag=True, help="And clusters and users that no context names any more.")
@inputs.yes_option
def delete_context(name: str, prune_orphans: bool, yes: bool) -> None:
    """Remove the context NAME from the contexts file; nothing changes in the service."""
    from nemo_helix_plugin.config import contexts

    inputs.confirm(f"Remove context '{name}'?", yes=yes)
    gone = contexts.delete_context(name, prune_orphans=prune_orphans)
    click.echo(f"nemo: removed {', '.join(gone)}.", err=True)


def keep_token(context: str | None, token: str) -> str:
    """Keep a token for a context, and return the context's name."""
    from nemo_helix_plugin.config import contexts

    return contexts.set_context(contexts.Changes(access_token=token), context=context)
