"""Write docs/reference/commands.md from the programs themselves, so that the page cannot say anything else.

python scripts/write_reference.py           writes the page
python scripts/write_reference.py --check   ends with 1 when the page differs
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from nemo_gym.cli.program import gym
from nemo_helix_plugin.cli.program import nemo

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"

_INTRODUCTION = """\
# Commands

Written by `scripts/write_reference.py` from the programs themselves; `make reference` writes it again.

Data goes to standard output, everything else to standard error.
With `--json`, standard output is one JSON document and nothing else.
`gym --json COMMAND` means the same as `gym COMMAND --json`.
The options of `nemo` itself may follow its commands too, `-c` excepted.
Exit statuses are in [exit codes](exit-codes.md).
Override tokens are in [run configuration](run-config.md#override-tokens).
"""


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for program, group in (("gym", gym), ("nemo", nemo)):
        parts += [_command(words, command) for words, command in commands(program, group)]
    parts.append(
        "Installed packages bring more commands of `nemo`, through the entry-point group `nemo.commands`. A "
        "name that two packages offer, or a package and `nemo` itself, is refused with the names of the "
        "packages.\n"
    )
    return "\n".join(parts)


def commands(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and everything below it, hidden ones left out, in the order of its help."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(f"{words} {name}", below)


def _command(words: str, command: click.Command) -> str:
    lines = [f"{'##' if ' ' not in words else '###'} `{words}`", "", *_prose(command), ""]
    usage = [_argument(p) for p in command.params if isinstance(p, click.Argument)]
    if usage:
        lines += ["```", " ".join([words, "[OPTIONS]", *usage]), "```", ""]
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        lines += [
            "| Option | Meaning |",
            "| --- | --- |",
            *(_option(option, command) for option in options),
            "",
        ]
    return "\n".join(lines)


def _prose(command: click.Command) -> list[str]:
    text = inspect.cleandoc(command.help or command.short_help or "").replace("\b\n", "")
    return text.splitlines()


def _argument(argument: click.Argument) -> str:
    name = (argument.metavar or (argument.name or "").upper()).strip("[].")
    shown = f"{name}..." if argument.nargs == -1 else name
    return shown if argument.required else f"[{shown}]"


def _option(option: click.Option, command: click.Command) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    metavar = option.make_metavar(click.Context(command)).replace(" RANGE", "")
    value = "" if option.is_flag or option.count else f" `{metavar}`"
    meaning = (option.help or f"See `{option.name}` in [run configuration](run-config.md).").replace(
        "|", "\\|"
    )
    if option.required:
        meaning = f"{meaning} Required."
    elif option.show_default and option.default is not None:
        meaning = f"{meaning} Default: `{option.default}`."
    return f"| {names}{value.replace('|', chr(92) + '|')} | {meaning} |"


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
