"""The groups of `gym`."""

from __future__ import annotations

import click

from nemo_cli.lazy_group import LazyGroup

_PRINT = frozenset(
    {
        *("list", "status", "watch", "info", "logs", "results", "show", "bill", "verify"),
        *("check", "compare", "benchmarks", "completion"),
    }
)
"""Commands whose output is all that they are for; every other one has done something when it prints."""


class GymGroup(LazyGroup):
    """A group of `gym`, which knows the commands that only print."""

    def prints(self, ctx: click.Context, name: str) -> bool:  # noqa: ARG002 - names are unique in `gym`
        """See `LazyGroup.prints`."""
        return name in _PRINT
