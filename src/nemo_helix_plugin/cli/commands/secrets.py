"""`nemo secrets create|update|list|delete`: values that jobs get by name, and that nobody can read back."""

from __future__ import annotations

from typing import Any

import click

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Expression, Operation
from nemo_helix_plugin.cli.removal import remove
from nemo_helix_plugin.cli.shared_options import Function, columns_option, name_argument

secrets = NemoGroup("secrets", help="Values that jobs get by name, and that nobody can read back.")


def _value_option(function: Function) -> Function:
    return click.option("--value", required=True, metavar="SOURCE", help=inputs.SOURCE_HELP)(function)


@secrets.command("create", short_help="Store a value under a name.")
@name_argument
@_value_option
@click.option("--description", metavar="TEXT", help="What it is for.")
@workspace_option
@command_options
def create(flags: GlobalFlags, name: str, value: str, description: str | None) -> None:
    """Store a value under NAME; a step gets it where its environment says `from_secret`."""
    given = {"name": name, **({"description": description} if description else {})}
    _store(flags, "secrets.create", "CreateSecretRequest", given, value, {})


@secrets.command("update", short_help="Give a name another value.")
@name_argument
@_value_option
@workspace_option
@command_options
def update(flags: GlobalFlags, name: str, value: str) -> None:
    """Give NAME another value; steps that start from now on get it."""
    _store(flags, "secrets.update", "UpdateSecretRequest", {}, value, {"name": name})


@secrets.command("list", short_help="Names of the secrets.")
@columns_option
@workspace_option
@command_options
def list_secrets(flags: GlobalFlags, columns: str | None) -> None:
    """List the secrets of a workspace; never their values."""
    call = CommandContext(flags)
    call.show_list(
        Operation("secrets.list", {"workspace": call.workspace}, "list"),
        ["name", "description", "created_at", "updated_at"],
        Paging(all_pages=True, columns=columns),
        empty=f"no secret in workspace '{call.workspace}'.",
    )


@secrets.command("delete", short_help="Remove a secret.")
@name_argument
@inputs.yes_option
@workspace_option
@command_options
def delete(flags: GlobalFlags, name: str, yes: bool) -> None:
    """Remove a secret; steps that name it cannot start any more."""
    remove(flags, "secrets.delete", "secret", name, yes=yes)


def _store(
    flags: GlobalFlags, method: str, model: str, given: dict[str, Any], source: str, path: dict[str, str]
) -> None:
    """Send a value to the service; with ``-f code`` it is read by the printed program, not shown in it."""
    from nemo_helix_plugin.access import types

    call = CommandContext(flags)
    asked: dict[str, Any] = {**path, "workspace": call.workspace}
    if call.output_format == "code":
        shown = "".join(f"{name}={text!r}, " for name, text in given.items())
        read = "sys.stdin.readline().strip()" if source == "-" else f"os.environ[{source[5:]!r}]"
        module = "sys" if source == "-" else "os"
        asked["body"] = Expression(f"{model}({shown}value={read})", ((types.__name__, model), (module, "")))
        call.prints_code(Operation(method, asked))
        return
    value = inputs.secret(source, "--value")
    asked["body"] = inputs.validated(getattr(types, model), {**given, "value": value})
    call.show_entity(Operation(method, asked))
