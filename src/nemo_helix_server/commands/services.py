"""`nemo services`: run the Jobs service on this machine and look after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.cli import inputs

_FOLDER = click.Path(file_okay=False, path_type=Path)
_data_dir = click.option(
    "--data-dir",
    type=_FOLDER,
    metavar="FOLDER",
    help="Where everything is kept; by default NHX_DATA_DIR, or nhx in the user's data folder.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def _plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the server's errors those of `nemo`: one sentence, exit status 1."""

    @wraps(function)
    def command(*args: Any, **values: Any) -> Any:
        from nemo_helix_plugin.errors import NemoError
        from nemo_helix_server.errors import ServerError

        try:
            return function(*args, **values)
        except ServerError as error:
            raise NemoError(error.detail) from error

    return command


@click.group()
def services() -> None:
    """Run the Jobs service on this machine, and look after it."""


@services.command(short_help="Start the service and stay in front.")
@click.option("--host", metavar="NAME", help="Name or address to listen on; by default 127.0.0.1.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on, 0: any that is free; by default 8080."
)
@_data_dir
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings as YAML; every one can also be given as a variable that begins with NHX_.",
)
@click.option(
    "--root-path",
    metavar="PATH",
    help="Path below which a proxy shows the service, such as /user/anna/proxy/8080.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Have the jobs of the data directory of which this is a copy, and which no service uses any more.",
)
@_as_json
@_plainly
def run(
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    settings_file: Path | None,
    root_path: str | None,
    take_over: bool,
    as_json: bool,
) -> int:
    """Run the Jobs service until it is asked to stop (Ctrl-C, SIGTERM).

    In a terminal it prints an address that opens its pages in a browser, once; `nemo services open` makes
    another.
    Jobs run on when it stops, or is killed, and are taken over again when it starts. What listens on anything
    but loopback needs an access token first: `nemo services token create`.
    A data directory that was copied is refused while jobs of it may be the original's, unless --take-over
    says that no service uses that any more.
    """
    from nemo_helix_server.commands import running

    given = {"host": host, "port": port, "data_dir": data_dir}
    overrides: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if root_path is not None:
        overrides["pages"] = {"root_path": root_path.rstrip("/")}
    return running.run(settings_file, overrides, as_json=as_json, take_over=take_over)


@services.command("open", short_help="An address that opens the pages in a browser, once.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.ADMIN.value,
    show_default=True,
    help="What the browser may do; each includes those before.",
)
@click.option("--workspace", metavar="NAME", help="The only workspace it is for.")
@_data_dir
@_as_json
@_plainly
def open_pages(role: str, workspace: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Print an address that opens the pages of the service of a data directory.

    It works once and for a few minutes, and signs in the browser that opens it: pass it on like a password.
    """
    from nemo_helix_server.commands import opening, service_probe

    made = opening.open_pages(service_probe.data_dir(data_dir), role, workspace)
    click.echo(json.dumps(made) if as_json else made["address"])


@services.command(short_help="Whether the service runs, where, and how it is.")
@_data_dir
@_as_json
@_plainly
def status(data_dir: Path | None, as_json: bool) -> int:
    """Look at the service of a data directory; ends with 1 when none runs or it does not work."""
    from nemo_helix_server.commands import service_probe

    found = service_probe.status(service_probe.data_dir(data_dir))
    click.echo(json.dumps(found) if as_json else service_probe.as_text(found))
    return 0 if found["status"] == "ok" else 1


@services.command(short_help="Pause everything that can be paused, before the service stops.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=3600.0, show_default=True, help="Seconds to wait."
)
@inputs.yes_option
@_data_dir
@_as_json
@_plainly
def drain(timeout: float, yes: bool, data_dir: Path | None, as_json: bool) -> int:
    """Pause every job that can be paused, wait for their checkpoints, and say what could not be.

    Ends with 0 when nothing runs any more and with 1 when something does. `nemo jobs resume` goes on with
    what was paused.
    """
    from nemo_helix_server.commands import draining, service_probe

    inputs.confirm("Pause every job of every workspace that can be paused?", yes=yes)
    outcome = draining.drain(service_probe.data_dir(data_dir), timeout)
    click.echo(json.dumps(outcome.document()) if as_json else outcome.as_text())
    return 0 if outcome.quiet else 1


@services.command(short_help="A systemd unit that runs the service.")
@click.option("--host", metavar="NAME", help="As of `nemo services run`.")
@click.option("--port", type=click.IntRange(0, 65535), help="As of `nemo services run`.")
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="As of `nemo services run`.",
)
@_data_dir
@_plainly
def unit(host: str | None, port: int | None, settings_file: Path | None, data_dir: Path | None) -> None:
    """Print a systemd unit that runs the service as this user, with these options.

    nemo services unit > ~/.config/systemd/user/nemo-services.service
    """
    from nemo_helix_server.commands import systemd

    given = {"--host": host, "--port": port, "--settings": settings_file, "--data-dir": data_dir}
    click.echo(systemd.unit({name: value for name, value in given.items() if value is not None}), nl=False)


@services.group(short_help="Access tokens, on the data directory itself.")
def token() -> None:
    """Make, list and revoke access tokens on the data directory, whether the service runs or not.

    The first token is made here; `nemo auth token` does the same through the service.
    """


@token.command("create", short_help="A new token.")
@click.argument("name", required=False)
@click.option(
    "--role",
    required=True,
    type=click.Choice([role.value for role in Role]),
    help="What its holder may do; each includes those before.",
)
@click.option("--workspace", metavar="NAME", help="The only workspace it is for.")
@click.option(
    "--expires-in-seconds",
    type=click.IntRange(1, 10**10),
    metavar="N",
    help="When it ends by itself; never if not given.",
)
@_data_dir
@_as_json
@_plainly
def create_token(
    name: str | None,
    role: str,
    workspace: str | None,
    expires_in_seconds: int | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Make a token and print it; it is shown this once."""
    from nemo_helix_server.commands import service_probe, tokens

    made = tokens.create(service_probe.data_dir(data_dir), name, role, workspace, expires_in_seconds)
    if made["note"]:
        click.echo(f"nemo: {made['note']}", err=True)
    click.echo(json.dumps(made) if as_json else made["token"])


@token.command("list", short_help="All tokens, without the tokens themselves.")
@_data_dir
@_as_json
@_plainly
def list_tokens(data_dir: Path | None, as_json: bool) -> None:
    """List the tokens, never the tokens themselves."""
    from nemo_helix_server.commands import service_probe, tokens

    found = tokens.every(service_probe.data_dir(data_dir))
    click.echo(json.dumps(found) if as_json else tokens.as_text(found))


@token.command("revoke", short_help="Make a token worthless.")
@click.argument("token_name", metavar="TOKEN")
@inputs.yes_option
@_data_dir
@_plainly
def revoke_token(token_name: str, yes: bool, data_dir: Path | None) -> None:
    """Make a token, given by name or id, worthless."""
    from nemo_helix_server.commands import service_probe, tokens

    inputs.confirm(f"Revoke the token '{token_name}', for good?", yes=yes)
    tokens.revoke(service_probe.data_dir(data_dir), token_name)
    click.echo(f"the token '{token_name}' is revoked", err=True)
