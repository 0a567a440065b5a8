"""`nemo auth`: tokens of the service, and which one the commands here use."""

from __future__ import annotations

import sys
from typing import Any

import click

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import columns_option
from nemo_helix_plugin.errors import NemoError

ROLES = tuple(role.value for role in Role)

auth = NemoGroup("auth", help="Tokens of the service, and which one the commands here use.")


@auth.command(short_help="Use a token from now on.")
@click.option("--token", metavar="SOURCE", help=inputs.SOURCE_HELP)
@command_options
def login(flags: GlobalFlags, token: str | None) -> None:
    """Keep a token for a context, so that its commands are somebody's.

    `nemo auth token create` makes tokens; there is no login through a browser.
    """
    if token is None:
        raise click.UsageError("Give the token's source: --token host:VARIABLE, or --token - to type it.")
    from nemo_helix_plugin.cli.commands.config import keep_token

    context = keep_token(flags.context, inputs.secret(token, "--token"))
    click.echo(f"nemo: context '{context}' uses this token from now on.", err=True)


@auth.group("token", cls=NemoGroup, invoke_without_command=True, short_help="Make, list and revoke tokens.")
@click.pass_context
def token_group(ctx: click.Context) -> None:
    """Make, list and revoke tokens; without a command, print the token that is used here, as for curl."""
    if ctx.invoked_subcommand is not None:
        return
    flags = ctx.find_object(GlobalFlags) or GlobalFlags()
    found = CommandContext(flags).context.access_token()
    if not found:
        raise NemoError("no token is set for this context; `nemo auth login --token host:VARIABLE` sets one")
    click.echo(found)


@token_group.command("create", short_help="A new token.")
@click.argument("name", required=False)
@click.option(
    "--role",
    required=True,
    type=click.Choice(ROLES),
    help="What its holder may do; each includes those before.",
)
@click.option("--workspace", "-w", "only", metavar="NAME", help="The only workspace it is good for.")
@click.option(
    "--expires-in-seconds", type=click.IntRange(min=1), help="When it ends by itself; never if not given."
)
@command_options
def create(
    flags: GlobalFlags, name: str | None, role: str, only: str | None, expires_in_seconds: int | None
) -> None:
    """Make a token and print it; it is shown this once, and the service keeps only its digest."""
    from nemo_helix_plugin.access.types import CreateTokenRequest

    given = {"name": name, "role": role, "workspace": only, "expires_in_seconds": expires_in_seconds}
    body = inputs.validated(CreateTokenRequest, {k: v for k, v in given.items() if v is not None})
    call = CommandContext(flags)
    operation = Operation("tokens.create", {"body": body})
    if call.prints_code(operation):
        return
    made: Any = record_of(call.ask(operation))
    if call.entity_format != "table":
        call.print_entity(made)
        return
    where = f"workspace '{only}'" if only else "every workspace"
    call.report(f"token {made['id']} ({role}, {where}); it is shown this once:")
    if made.get("note"):
        call.report(made["note"])
    sys.stderr.flush()
    click.echo(made["token"])


@token_group.command("list", short_help="All tokens, without the tokens themselves.")
@columns_option
@command_options
def list_tokens(flags: GlobalFlags, columns: str | None) -> None:
    """List the tokens of the service: whose, what for, until when."""
    CommandContext(flags).show_list(
        Operation("tokens.list", {}, "list"),
        ["id", "name", "role", "workspace", "created_at", "expires_at", "last_used_at", "revoked_at"],
        Paging(all_pages=True, columns=columns),
        empty="the service has no token.",
    )


@token_group.command("revoke", short_help="Make a token useless.")
@click.argument("token_id", metavar="ID")
@inputs.yes_option
@command_options
def revoke(flags: GlobalFlags, token_id: str, yes: bool) -> None:
    """Make a token useless from now on."""
    call = CommandContext(flags)
    operation = Operation("tokens.revoke", {"id": token_id}, "nothing")
    if call.prints_code(operation):
        return
    inputs.confirm(f"Revoke token '{token_id}', for good?", yes=yes)
    call.ask(operation)
    call.print_done(f"token {token_id} is revoked.", {"id": token_id, "revoked": True})
