"""Which name may have been meant by one that does not exist, and how that is said."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

_MOST = 3
"""How many names are suggested at most: a longer list helps less than the help does."""

_READING = ("get", "show", "view", "info", "status", "list", "describe", "cat", "print", "ls", "open")
"""Words by which programs call the command that only shows, the likeliest first."""

_SAME = tuple(
    words.split()
    for words in (
        "cancel stop kill abort terminate end scancel",
        "delete rm remove del purge prune",
        "create add new set put submit start",
        "run start launch",
        "get-logs logs log tail output",
        "list ls ps queue squeue all",
        "results result scores score summary report",
        "resume resubmit rerun continue restart requeue retry",
        "download fetch pull get",
        "upload push import",
        "customization train finetune fine-tune tune training",
        "sft lora qlora train finetune fine-tune tune",
        "check validate lint doctor",
    )
)
"""Words for one thing, as programs call it; of a program's own ones the earlier are the likelier."""

_SEVERAL = re.compile(r"(No such option '(--[^']*)') \(did you mean one of: (.*)\?\)\.?$")
"""Click's message about an option that is like several."""

_SURELY = 0.85
"""How alike a typed name and a command are at least where the one is surely a slip of the other."""


def nearest(name: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The candidate that looks most like ``name``, or ``None`` if none does.

    Case, and hyphens in the place of underscores, make no difference. ``cutoff`` is how alike both must be,
    from 0 (the most alike, however little that is) to 1 (equal).
    """
    import difflib  # noqa: PLC0415 - only a mistake needs it

    by_text = {candidate.lower().replace("-", "_"): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), by_text, n=1, cutoff=cutoff)
    return by_text[found[0]] if found else None


def did_you_mean(*names: str | None) -> str:
    """`` (did you mean 'x'?)``, to go behind what was not found; empty without a name or with too many."""
    found = [f"'{name}'" for name in names if name]
    if not found or len(found) > _MOST:
        return ""
    return f" (did you mean {'one of: ' if len(found) > 1 else ''}{', '.join(found)}?)"


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """`did_you_mean` the `nearest` candidate."""
    return did_you_mean(nearest(name, candidates))


def reworded(message: str) -> str:
    """A message of click in which its own suggestion, if it has one, is written as `did_you_mean` does.

    Of several options one that is surely meant is the only one.
    """
    said = re.sub(r"\.? \(?Did you mean (.*\?)\)?", r" (did you mean \1)", message)
    match = _SEVERAL.search(said)
    near = nearest(match[2], re.findall("'([^']*)'", match[3]), cutoff=_SURELY) if match else None
    return f"{said[: match.start()]}{match[1]}{did_you_mean(near)}" if match and near else said


def command_suggestion(context: Any, group: Any, typed: str, shown: Iterable[str]) -> str:
    """`did_you_mean` a command, wherever in the program it is.

    ``context`` and ``group`` are click's; ``shown`` are the names of the help. One of them that is surely
    meant comes first, then the group's own word for the same thing, and what is a little like it; then
    commands of just that name below the group; for a word that means to show something the group's own word
    for it; commands of that name anywhere in the program, and last those that mean the same.
    """
    root, names, same = context.find_root(), list(shown), _same_as(typed)
    here = context.command_path
    return (
        did_you_mean(nearest(typed, names, cutoff=_SURELY))
        or did_you_mean(*[name for name in same if name in names][:_MOST])
        or suggestion(typed, names)
        or did_you_mean(*_below(context, group, here, (typed,)))
        or did_you_mean(*[name for name in _READING if typed in _READING and name in names][:1])
        or did_you_mean(*_below(context, root.command, root.command_path, (typed,)))
        or did_you_mean(
            *(path for path in _below(context, root.command, root.command_path, same) if path != here)
        )
    )


def _same_as(typed: str) -> tuple[str, ...]:
    """Other words for what was typed."""
    return tuple(word for words in _SAME if typed in words for word in words if word != typed)


def _below(context: Any, group: Any, path: str, wanted: tuple[str, ...]) -> Iterator[str]:
    """Where the commands of these names are: whole command lines."""
    for name in group.list_commands(context):
        command = None
        with contextlib.suppress(Exception):  # a package that cannot be imported has nothing to suggest
            command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        if name in wanted:
            yield f"{path} {name}"
        elif hasattr(command, "list_commands"):
            yield from _below(context, command, f"{path} {name}", wanted)
