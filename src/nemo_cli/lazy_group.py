"""Click groups whose commands are imported when they are called, so that the help stays quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nemo_runs import streams

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Lazy(NamedTuple):
    """A command that is not imported yet."""

    target: str
    """``module:attribute``."""
    help: str
    """Its line in the help of the group."""
    hidden: bool = False


class LazyGroup(click.Group):
    """A group that knows its commands by name, one-line help and where they are."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})

    def prints(self, ctx: click.Context, name: str) -> bool:  # noqa: ARG002 - programs tell them apart
        """Whether a command is there for its output; any other has done something when it prints."""
        return False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, lazy ones included, in the order of the help."""
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; for an unknown name, suggest one."""
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = self.suggested(ctx, args[0])
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None
        if not isinstance(command, click.Group) and not self.prints(ctx, name or ""):
            streams.allow_lost_stdout()
        return name, command, rest

    def suggested(self, ctx: click.Context, typed: str) -> str:
        """What may have been meant by an unknown name."""
        from nemo_runs.suggestions import command_suggestion, did_you_mean

        if typed in ("help", "version"):
            return did_you_mean(f"{(ctx if typed == 'help' else ctx.find_root()).command_path} --{typed}")
        return command_suggestion(ctx, self, typed, [name for name, _ in self.shown(ctx)])

    def shown(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Names and one-line help of what the help lists, importing nothing."""
        rows = [(name, lazy.help) for name, lazy in self._lazy.items() if not lazy.hidden]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=100)))
        return rows

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin so, importing none of them."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=line) for name, line in self.shown(ctx) if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their one-line help."""
        rows = self.shown(ctx)
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
