"""Completion in bash, zsh and fish: the script for the shell, and what a program answers when it asks.

The shell calls the program itself with a variable in its environment; nothing is printed then but what may
follow. An error meanwhile completes nothing: a person who types cannot read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

SHELLS = ("bash", "zsh", "fish")

Values = Callable[[click.Context, str], Iterable[tuple[str, str]]]
"""Gives values and what is said about each, of a context whose parameters are those typed so far."""
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class LineBash(BashComplete):
    """Bash, asked with the whole line: bash itself breaks words at ``=`` and ``:``, which labels have."""

    def source(self) -> str:
        """The function, and the line that registers it for the program."""
        function = resources.files(__package__).joinpath("completion.sh").read_text(encoding="utf-8")
        return f"{function}complete -o nosort -F _baton_complete {self.prog_name}\n"

    @staticmethod
    def _check_version() -> None:
        """The script works in every bash of this century."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The whole words before the cursor, and the word that is being typed."""
        line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="replace")
        words = split_arg_string(line)
        self._typed = "" if not words or line[-1:].isspace() else words.pop()
        return words[1:], self._typed

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """A value without what bash takes for words before it."""
        kept = max(self._typed.rfind(mark) for mark in "=:") + 1
        value = str(item.value)
        if kept and value.startswith(self._typed[:kept]):
            value = value[kept:]
        return f"{item.type},{value}"


def completion_command(program: str, root: Callable[[], click.Command]) -> click.Command:
    """The command ``completion`` of a program, which prints the script of a shell."""

    @click.command(
        "completion",
        short_help="Complete commands and names in bash, zsh or fish.",
        help=f"""Print the completion script of a shell. It completes commands, options and names.

        \b
        bash, in ~/.bashrc:  eval "$({program} completion bash)"
        zsh, in ~/.zshrc:    eval "$({program} completion zsh)"   (after compinit)
        fish:                {program} completion fish > ~/.config/fish/completions/{program}.fish
        """,
    )
    @click.argument("shell", type=click.Choice(SHELLS))
    def completion(shell: str) -> None:
        add_completion_class(LineBash, "bash")
        found = get_completion_class(shell)
        assert found is not None
        click.echo(found(root(), {}, program, complete_variable(program)).source(), nl=False)

    return completion


def complete_variable(program: str) -> str:
    """The variable by which a shell asks a program."""
    return f"_{program.upper()}_COMPLETE"


def prepare(program: str) -> None:
    """Make ready to answer, if a shell asks; otherwise nothing is done."""
    if complete_variable(program) in os.environ:
        add_completion_class(LineBash, "bash")


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ``shell_complete`` of text that names a file; a shell offers nothing of its own without it."""
    return [CompletionItem(incomplete, type="file")]


def folders(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ``shell_complete`` of text that names a folder."""
    return [CompletionItem(incomplete, type="dir")]


def completes(values: Values, *, paths: bool = False) -> Complete:
    """The ``shell_complete`` of an argument or option; with ``paths`` a word with a slash is a file."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        if paths and (incomplete.startswith((".", "~")) or "/" in incomplete):
            return [CompletionItem(incomplete, type="file")]
        try:
            found = [(value, help_line) for value, help_line in values(ctx, incomplete)]
        except Exception:  # noqa: BLE001 - see the head of this module
            return []
        return [
            CompletionItem(value, help=help_line or None)
            for value, help_line in found
            if value.startswith(incomplete)
        ]

    return complete
