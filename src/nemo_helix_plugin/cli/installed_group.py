"""A group of `nemo` to which installed packages add commands by entry points.

Nothing is imported before it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from nemo_helix_plugin.cli import outside_commands
from nemo_helix_plugin.cli.lazy import NemoGroup


class InstalledGroup(NemoGroup):
    """A group with commands of its own and others that entry points bring.

    ``entry_points`` is their group's name; ``known`` has help lines of commands that packages of this
    distribution bring: reading theirs would import them.
    """

    def __init__(
        self, *args: Any, entry_points: str, known: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._entry_points = entry_points
        self._known = dict(known or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the group's own commands and of all installed ones."""
        own = super().list_commands(ctx)
        return [*own, *outside_commands.installed_commands(own, self._entry_points)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; raises `CommandLoadError` where two have that name."""
        own = super().list_commands(ctx)
        installed = outside_commands.load(cmd_name, own, self._entry_points)
        return installed or super().get_command(ctx, cmd_name)

    def shown(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Names and help; of an installed command the package that brings it, where nothing else is known."""
        own = super().list_commands(ctx)
        brought = [
            (name, self._known.get(name, f"from {packages}"))
            for name, packages in outside_commands.installed_commands(own, self._entry_points).items()
        ]
        lazy = [(name, lazy.help) for name, lazy in self._lazy.items() if not lazy.hidden]
        return [*lazy, *self._plain(ctx), *brought]

    def _plain(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Names and help of commands that are imported with the group."""
        found = [(name, super(InstalledGroup, self).get_command(ctx, name)) for name in self.commands]
        return [(name, one.get_short_help_str(limit=100)) for name, one in found if one and not one.hidden]
