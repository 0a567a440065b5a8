"""`nemo profiles list|check`: where steps can run, and what would keep them from running there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from nemo_helix_plugin import errors
from nemo_helix_plugin.cli import completing
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output import documents
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import columns_option
from nemo_runs import findings

_CHECK_TIMEOUT = 600.0
"""Seconds to wait for the service, which asks a cluster one question after another."""

profiles = NemoGroup("profiles", help="Execution profiles: where steps can run, and whether they can now.")


@profiles.command("list", short_help="Where steps can run.")
@columns_option
@command_options
def list_profiles(flags: GlobalFlags, columns: str | None) -> None:
    """List the execution profiles that steps can name, with the backend of each."""
    show_profiles(CommandContext(flags), Operation("profiles.list", {}), columns)


@profiles.command("check", short_help="Find out, without a job, what would keep steps from running.")
@click.argument("name", metavar="PROVIDER/PROFILE", shell_complete=completing.providers_and_profiles)
@command_options
def check(flags: GlobalFlags, name: str) -> int:
    """Try an execution profile as the service would use it: its machine or its cluster is asked, no job runs.

    Each line is ok, unknown (it cannot be seen from the service), warning or problem, and says what to
    change. Ends with 1 when there is a problem. A profile whose name no other provider has may be given by
    that name alone. Needs the role `operate`.
    """
    call = CommandContext(flags)
    provider, profile = _meant(call, name)
    operation = Operation("profiles.check", {"provider": provider, "profile": profile})
    if call.prints_code(operation):
        return errors.EXIT_DONE
    call.client = call.client.with_options(timeout=_CHECK_TIMEOUT)
    found = record_of(call.ask(operation))
    if (flags.output_format or call.context.output_format) == "table":
        for one in found["findings"]:
            click.echo(findings.as_line(one["verdict"], one["about"], one["text"]))
    else:
        call.print_entity(found)
    return errors.EXIT_DONE if found["ok"] else errors.EXIT_LOCAL


def show_profiles(call: CommandContext, operation: Operation, columns: str | None) -> None:
    """Ask for the profiles and print them."""
    if call.prints_code(operation):
        return
    rows, names = record_of(call.ask(operation))["data"], ["profile", "backend", "provider", "config"]
    if call.output_format == "table" and columns is None:
        rows, names = [_for_people(row) for row in rows], [*names[:-1], "settings"]
    call.print_list(rows, names, columns, empty="no execution profile is set up.")


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """The profile with the settings that it was given, in words that can be wrapped.

    A service that does not say which these are has all that have a value shown.
    """
    config, given = row.get("config") or {}, row.get("given")
    shown = {
        name: value
        for name, value in config.items()
        if value is not None and (given is None or name in given)
    }
    words = (f"{name} {documents.plain(value)}" for name, value in shown.items())
    return {**row, "settings": ", ".join(words)}


def _meant(call: CommandContext, name: str) -> tuple[str, str]:
    """Provider and profile: both are given, or the service has one profile of this name."""
    provider, slash, profile = name.partition("/")
    if slash:
        if not provider or not profile or "/" in profile:
            raise click.UsageError(f"'{name}' names no profile: give PROVIDER/PROFILE, such as gpu/default.")
        return provider, profile
    known = [
        (row["provider"], row["profile"]) for row in record_of(call.ask(Operation("profiles.list")))["data"]
    ]
    fitting = [pair for pair in known if pair[1] == name]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join("/".join(pair) for pair in fitting or known) or "none"
    if fitting:
        raise errors.NemoError(f"several providers have a profile '{name}': give one of {there}.")
    raise errors.NemoError(f"there is no execution profile '{name}'; there are {there}.")
