"""Commands of `nemo` that other packages bring: entry points of the group ``nemo.commands``.

The files are read directly, since importing ``importlib.metadata`` takes longer than everything else that
``nemo --help`` does. Nothing is imported before it is called.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from nemo_helix_plugin import errors

GROUP = "nemo.commands"
"""An entry point of this group is ``<command> = <module>:<attribute>``, the attribute a `click.Command`."""


class InstalledCommand(NamedTuple):
    """One command, not imported yet."""

    name: str
    target: str
    """``module:attribute``."""
    distribution: str
    """Name of the distribution that brings it, as its metadata folder has it."""


def installed_commands(folders: Iterable[str] | None = None) -> dict[str, InstalledCommand]:
    """All commands on ``folders`` (default: ``sys.path``) by name; the first folder that has a name wins."""
    found: dict[str, InstalledCommand] = {}
    for folder in sys.path if folders is None else folders:
        for command in _commands_in(folder or "."):
            found.setdefault(command.name, command)
    return dict(sorted(found.items()))


def load(command: InstalledCommand) -> click.Command:
    """Import a command. Raises `CommandLoadError` naming the package when it cannot be had."""
    module, _, attribute = command.target.partition(":")
    try:
        loaded = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise errors.CommandLoadError(_broken(command, str(error))) from error
    if not isinstance(loaded, click.Command):
        raise errors.CommandLoadError(_broken(command, f"{command.target} is a {type(loaded).__name__}"))
    return loaded


def _broken(command: InstalledCommand, reason: str) -> str:
    return (
        f"the command '{command.name}' of the package {command.distribution} cannot be loaded ({reason}); "
        "install that package again, or remove it"
    )


def _commands_in(folder: str) -> Iterator[InstalledCommand]:
    # By name and not as paths: importing `pathlib` takes as long as all of this.
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
    except OSError:
        return  # a zip file or a folder that is not there: nothing that can be installed in the usual way
    for name in names:
        try:
            with open(f"{folder}/{name}/entry_points.txt", encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if GROUP in text:
            distribution = name.partition("-")[0].replace("_", "-")
            yield from (InstalledCommand(command, target, distribution) for command, target in _entries(text))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """The ``name = module:attribute`` lines of our section."""
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == GROUP and "=" in line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            yield name.strip(), target.partition("[")[0].strip()
