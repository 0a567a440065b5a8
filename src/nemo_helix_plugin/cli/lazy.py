"""The groups of `nemo`."""

from __future__ import annotations

import click

from nemo_cli.lazy_group import LazyGroup

_PRINT = frozenset(
    (
        *("get", "list", "watch", "tail", "transitions", "view", "current-context", "explain", "preview"),
        *("doctor", "show", "status", "unit", "download", "completion", "docs"),
    )
)
"""Commands whose output is all that they are for, besides `get-…` and `list-…`."""


class NemoGroup(LazyGroup):
    """A group of `nemo`, which knows the commands that only print."""

    def prints(self, ctx: click.Context, name: str) -> bool:
        """See `LazyGroup.prints`."""
        shown_once = ctx.info_name == "token" and name == "create"
        return shown_once or name in _PRINT or name.startswith(("get-", "list-"))

    def suggested(self, ctx: click.Context, typed: str) -> str:
        """What may have been meant; a sweep is made where its jobs are."""
        if ctx.info_name == "sweeps" and typed in ("create", "run", "start", "new"):
            from nemo_runs.suggestions import did_you_mean

            return did_you_mean("nemo customization sft --sweep")
        return super().suggested(ctx, typed)
