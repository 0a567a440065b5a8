"""The groups of `nemo`."""

from __future__ import annotations

import click

from nemo_cli.lazy_group import LazyGroup

_PRINT = frozenset(
    (
        *("get", "list", "watch", "tail", "transitions", "view", "current-context", "explain", "preview"),
        *("doctor", "status", "unit", "download", "completion"),
    )
)
"""Commands whose output is all that they are for, besides `get-…` and `list-…`."""


class NemoGroup(LazyGroup):
    """A group of `nemo`, which knows the commands that only print."""

    def prints(self, ctx: click.Context, name: str) -> bool:
        """See `LazyGroup.prints`."""
        shown_once = ctx.info_name == "token" and name == "create"
        return shown_once or name in _PRINT or name.startswith(("get-", "list-"))
