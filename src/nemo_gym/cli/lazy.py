"""The groups of `gym`."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_cli.lazy_group import LazyGroup

_PRINT = frozenset(
    {
        *("list", "status", "watch", "info", "logs", "results", "show", "bill", "verify"),
        *("check", "compare", "benchmarks", "completion", "docs"),
    }
)
"""Commands whose output is all that they are for; every other one has done something when it prints."""


_BENCHMARKS = frozenset({"tasks", "evals", "datasets", "suites"})
"""What other programs call benchmarks."""


class GymGroup(LazyGroup):
    """A group of `gym`, which knows the commands that only print."""

    def prints(self, ctx: click.Context, name: str) -> bool:  # noqa: ARG002 - names are unique in `gym`
        """See `LazyGroup.prints`."""
        return name in _PRINT

    def suggested(self, ctx: click.Context, typed: str) -> str:
        """What may have been meant, benchmarks and the files of other programs among it."""
        from nemo_runs.suggestions import did_you_mean

        if ctx.info_name == "eval":
            if typed.endswith(".py"):
                run = f"[inspect, eval, {typed}]"
                return f"; a file that another program runs is a benchmark with a command: argv {run}"
            from nemo_gym.rollouts.run_config.catalog import benchmark_names

            if typed in benchmark_names((), Path.cwd()):
                return did_you_mean(f"gym eval run --benchmark {typed}")
        if ctx.info_name != "job" and typed in ("resume", "continue"):
            return did_you_mean("gym eval run --resume", "gym job resubmit")
        if ctx.info_name == "list" and typed in _BENCHMARKS:
            return did_you_mean("benchmarks")
        return super().suggested(ctx, typed)
