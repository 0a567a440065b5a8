"""What may have been meant by a command that does not exist, wherever in the program it is."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Any

_MOST = 3
"""How many commands are suggested at most: a longer list helps less than the help does."""

_READING = ("get", "show", "view", "info", "status", "list", "describe", "cat", "print", "ls")
"""Words by which programs call the command that only shows, the likeliest first."""


def suggestion(context: Any, group: Any, typed: str, shown: Iterable[str]) -> str:
    """`` Did you mean 'x'?``, or nothing when no command is near.

    ``context`` and ``group`` are click's; ``shown`` are the names of the help. One of them that is like it
    comes first, then commands of just that name below the group, then those anywhere in the program; and
    last, for a word that means to show something, the group's own word for it.
    """
    root, names = context.find_root(), list(shown)
    return (
        _question(difflib.get_close_matches(typed, names, n=1, cutoff=0.6))
        or _question(_below(context, group, context.command_path, typed))
        or _question(_below(context, root.command, root.command_path, typed))
        or _question([name for name in _READING if typed in _READING and name in names][:1])
    )


def _question(found: Iterable[str]) -> str:
    names = [f"'{name}'" for name in found]
    if not names or len(names) > _MOST:
        return ""
    return f" Did you mean {names[0]}?" if len(names) == 1 else f" Did you mean one of: {', '.join(names)}?"


def _below(context: Any, group: Any, path: str, typed: str) -> Iterator[str]:
    """Where the commands of this name are: whole command lines."""
    for name in group.list_commands(context):
        command = None
        with contextlib.suppress(Exception):  # a package that cannot be imported has nothing to suggest
            command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        if name == typed:
            yield f"{path} {name}"
        elif hasattr(command, "list_commands"):
            yield from _below(context, command, f"{path} {name}", typed)
