"""What is wrong with a command line: click's message in our words, and what may have been meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from nemo_cli.lazy_group import LazyGroup
from nemo_runs import suggestions

_WORDING = (
    ("'[NAME]'", "'NAME'"),
    ("is not a valid integer range", "is not a whole number"),
    ("is not a valid float range", "is not a number"),
    ("is not a valid integer", "is not a whole number"),
    ("is not a valid float", "is not a number"),
)
"""What click says, and what is said in its place."""
_LISTED = "\n  "
"""What begins each of several problems: each stays on its line."""
_NO_COMMAND = re.compile(r"No such command '([^']*)'")
_NO_SHORT_OPTION = re.compile(r"No such option '-(\w)'$")
_NO_CHOICE = re.compile(r"'([^']*)' is not one of ('[^']*'(?:, '[^']*')+)$")
_EXTRA = re.compile(r"Got unexpected extra arguments? \(([\w-]+)[^)]*\)$")


def said(error: click.UsageError) -> str:
    """The message of an error, on one line unless it lists several; it may end without a full stop."""
    lines = [" ".join(line.split()) for line in error.format_message().split(_LISTED)]
    message = suggestions.reworded(_LISTED.join(lines))
    for theirs, ours in _WORDING:
        message = message.replace(theirs, ours)
    if error.ctx is None:
        return message
    shortened = message.rstrip(".")
    found = _no_command(shortened, error.ctx)
    return found or (f"{shortened}{meant}" if (meant := _meant(shortened, error.ctx)) else message)


def where(program: click.Command, name: str, args: Sequence[str]) -> str:
    """The command that some arguments call, of an error that does not say it."""
    path, command = name, program
    for word in args:
        found = (
            command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        )
        if found is not None:
            path, command = f"{path} {word}", found
    return path


def _no_command(message: str, context: click.Context) -> str | None:
    """Of an unknown command in a group of another package, which has no suggestions but click's."""
    match, group = _NO_COMMAND.match(message), context.command
    if match is None or not isinstance(group, click.Group) or isinstance(group, LazyGroup):
        return None
    names = group.list_commands(context)
    return f"{match[0]}{suggestions.command_suggestion(context, group, match[1], names)}"


def _meant(message: str, context: click.Context) -> str:
    """What may have been meant where click has no suggestion; empty where nothing is near."""
    if match := _NO_CHOICE.search(message):
        typed, choices = match[1], re.findall("'([^']*)'", match[2])
        within = [name for name in choices if name in typed]
        return suggestions.did_you_mean(suggestions.nearest(typed, choices) or next(iter(within), None))
    if match := _NO_SHORT_OPTION.search(message):
        long = [name for name in _options(context) if not name.startswith("--no-")]
        return suggestions.did_you_mean(*[name for name in long if name[2] == match[1]])
    if match := _EXTRA.search(message):
        named = f"--{match[1].replace('_', '-')}"
        return suggestions.did_you_mean(named if named in _options(context) else None)
    return ""


def _options(context: click.Context) -> list[str]:
    """The long options of a command, each by its first name."""
    own = [option for option in context.command.params if isinstance(option, click.Option)]
    long = [[name for name in option.opts if name.startswith("--")] for option in own if not option.hidden]
    return [names[0] for names in long if names]
