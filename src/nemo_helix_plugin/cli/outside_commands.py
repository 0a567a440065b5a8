"""Commands that other packages bring: entry points of ``nemo.commands`` and ``nemo.models.commands``.

Nothing is imported before it is called.
"""

from __future__ import annotations

from collections.abc import Collection

import click

from nemo_helix_plugin import errors
from nemo_runs.errors import EntryPointError
from nemo_runs.extensions import entry_points
from nemo_runs.extensions.entry_points import EntryGroup

GROUP = "nemo.commands"
"""An entry point of this group is ``<command> = <module>:<attribute>``, the attribute a `click.Command`."""

MODELS_GROUP = "nemo.models.commands"
"""The same for commands of `nemo models`."""


def installed_commands(own: Collection[str], group: str = GROUP) -> dict[str, str]:
    """The package, or packages, of each installed command; ``own`` are the names that need none."""
    found: dict[str, list[str]] = {}
    for entry in entry_points.offers(_group(own, group)):
        if entry.name not in own:
            found.setdefault(entry.name, []).append(entry.distribution)
    return {name: ", ".join(packages) for name, packages in found.items()}


def load(name: str, own: Collection[str], group: str = GROUP) -> click.Command | None:
    """Import an installed command; ``None`` for a name that is among ``own``, or that nobody brings.

    Raises `CommandLoadError`, which names the package, for a command that cannot be had, and for a name that
    several packages have, or a package and ``own``.
    """
    offered = _group(own, group)
    try:
        entry = entry_points.find(offered, name)
        if entry is None:
            return None
        command: click.Command = entry_points.load(offered, entry, click.Command)
    except EntryPointError as error:
        raise errors.CommandLoadError(str(error)) from error
    return command


def _group(own: Collection[str], group: str) -> EntryGroup:
    return EntryGroup(group, "command", own)
