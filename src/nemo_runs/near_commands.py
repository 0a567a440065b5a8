"""What may have been meant by a command that does not exist, wherever in the program it is."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Any

_MOST = 3
"""How many commands are suggested at most: a longer list helps less than the help does."""


def suggestion(context: Any, group: Any, typed: str, shown: Iterable[str]) -> str:
    """`` Did you mean 'x'?``, or nothing when no command is near.

    ``context`` and ``group`` are click's; ``shown`` are the names of the help. One of them that is like it
    comes first, then commands of just that name below the group, then those anywhere in the program.
    """
    root = context.find_root()
    return (
        _question(difflib.get_close_matches(typed, list(shown), n=1, cutoff=0.6))
        or _question(_below(context, group, context.command_path, typed))
        or _question(_below(context, root.command, root.command_path, typed))
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
