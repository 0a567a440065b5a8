"""Options that every command takes: before the command, where the whole program has them, and after it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from nemo_helix_plugin.cli import completing

FORMATS = ("table", "json", "yaml", "markdown", "csv", "raw", "code")
TIMESTAMPS = ("iso8601", "relative")


class GlobalFlags(NamedTuple):
    """What was typed; `None` and false where nothing was."""

    context: str | None = None
    base_url: str | None = None
    workspace: str | None = None
    output_format: str | None = None
    timestamp_format: str | None = None
    no_truncate: bool = False
    verbose: bool = False

    def over(self, outer: GlobalFlags) -> GlobalFlags:
        """These flags, and the outer ones where there are none: what is nearer to the command wins."""
        return GlobalFlags._make(near or far for near, far in zip(self, outer, strict=True))


def global_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the program itself; what was typed becomes the context's object."""

    @wraps(function)
    def group(**values: Any) -> Any:
        click.get_current_context().obj = _taken(values)
        return function(**values)

    return _options(group, "--context", "-c")


def command_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same options on a command: it gets `GlobalFlags` as its first argument."""

    @wraps(function)
    def command(*args: Any, **values: Any) -> Any:
        outer = click.get_current_context().find_object(GlobalFlags) or GlobalFlags()
        flags = _taken(values).over(outer)
        return function(flags, *args, **values)

    return _options(command, "--context")


def workspace_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--workspace``, which `command_options` puts into the flags."""
    return click.option(
        "-w",
        "--workspace",
        metavar="NAME",
        help="The workspace; otherwise NHX_WORKSPACE, the context's, or `default`.",
    )(function)


def _taken(values: dict[str, Any]) -> GlobalFlags:
    """Take the flags out of the values of a command's parameters."""
    as_json = values.pop("as_json", False)
    values.pop("no_telemetry", None)
    values.pop("no_auto_refresh", None)
    found = {name: values.pop(name) for name in GlobalFlags._fields if name in values}
    if as_json:
        if found.get("output_format") not in {None, "json"}:
            raise click.UsageError(f"--json and -f {found['output_format']} contradict each other.")
        found["output_format"] = "json"
    return GlobalFlags(**found)


def _options(function: Callable[..., Any], *context_names: str) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option(
                *context_names,
                "context",
                metavar="NAME",
                shell_complete=completing.context_names,
                help="The context to use, for this call.",
            ),
            click.option(
                "--base-url", metavar="URL", help="The service's address, in place of the context's."
            ),
            click.option(
                "-f",
                "--output-format",
                "--output",
                "output_format",
                type=click.Choice(FORMATS),
                help="How to print; `code` prints the Python that does it, and asks nothing of the service.",
            ),
            click.option(
                "--json",
                "as_json",
                is_flag=True,
                help="As `-f json`: one JSON document on stdout and nothing else.",
            ),
            click.option("--no-truncate", is_flag=True, help="In tables: whole values, however long."),
            click.option("--timestamp-format", type=click.Choice(TIMESTAMPS), help="How tables show times."),
            click.option("-v", "--verbose", is_flag=True, help="Say more on stderr."),
            click.option("--no-telemetry", is_flag=True, hidden=True),
            click.option("--no-auto-refresh", is_flag=True, hidden=True),
        )
    ):
        function = option(function)
    return function
