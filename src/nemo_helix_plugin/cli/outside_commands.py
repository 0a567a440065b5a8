"""Commands of `nemo` that other packages bring: entry points of the group ``nemo.commands``.

Nothing is imported before it is called.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

from nemo_helix_plugin import entry_points, errors
from nemo_helix_plugin.entry_points import InstalledEntry

GROUP = "nemo.commands"
"""An entry point of this group is ``<command> = <module>:<attribute>``, the attribute a `click.Command`."""


def installed_commands(folders: Iterable[str] | None = None) -> dict[str, InstalledEntry]:
    """All commands on ``folders`` (default: ``sys.path``) by name; the first folder that has a name wins."""
    return entry_points.installed(GROUP, folders)


def load(command: InstalledEntry) -> click.Command:
    """Import a command. Raises `CommandLoadError` naming the package when it cannot be had."""
    try:
        loaded = entry_points.load(command.target)
    except (ImportError, AttributeError) as error:
        raise errors.CommandLoadError(_broken(command, str(error))) from error
    if not isinstance(loaded, click.Command):
        raise errors.CommandLoadError(_broken(command, f"{command.target} is a {type(loaded).__name__}"))
    return loaded


def _broken(command: InstalledEntry, reason: str) -> str:
    return (
        f"the command '{command.name}' of the package {command.distribution} cannot be loaded ({reason}); "
        "install that package again, or remove it"
    )
