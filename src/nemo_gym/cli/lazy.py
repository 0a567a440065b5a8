"""Click groups whose commands are imported when they are called, so that `gym --help` stays quick."""

from __future__ import annotations

import importlib
from typing import Any

import click

from nemo_runs import streams

_PRINT = frozenset(
    {
        *("list", "status", "watch", "info", "logs", "results", "bill", "verify"),
        *("check", "compare", "benchmarks"),
    }
)
"""Commands whose output is all that they are for; every other one has done something when it prints."""


class LazyGroup(click.Group):
    """A group that knows its commands by name, one-line help and ``module:attribute``."""

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, lazy ones included."""
        return [*super().list_commands(ctx), *self._lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, but lazy commands too are suggested for a name that is none."""
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            from nemo_runs.suggestions import command_suggestion

            shown = [name for name in self.list_commands(ctx) if not self._is_hidden(name)]
            hint = command_suggestion(ctx, self, args[0], shown)
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None
        if name not in _PRINT and not isinstance(command, click.Group):
            streams.allow_lost_stdout()
        return name, command, rest

    def _is_hidden(self, name: str) -> bool:
        return name in self.commands and self.commands[name].hidden

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their one-line help, importing none of them."""
        rows = [(name, help_line) for name, (_, help_line) in self._lazy.items()]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=formatter.width)))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
