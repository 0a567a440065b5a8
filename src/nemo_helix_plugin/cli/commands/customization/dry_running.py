"""`nemo customization <backend> --dry-run`: everything is checked and estimated, and there is no job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from nemo_helix_plugin import errors
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.output.code import Operation
from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words
from nemo_runs.findings import as_line
from nemo_runs.sizes import size_in_words

_TIMEOUT = 660.0
"""Seconds to wait for the service, which may first have to finish another one."""
PARTS = ("weights", "gradients", "optimizer", "activations", "workspace")


def run(call: CommandContext, backend: str, asked: Mapping[str, Any], *, force: bool) -> int:
    """Ask the service and print what it says; `errors.EXIT_REMOTE` for what cannot work, unless forced."""
    operation = Operation(f"customization.{backend}.dry_run", dict(asked))
    if call.prints_code(operation):
        return errors.EXIT_DONE
    call.client = call.client.with_options(timeout=_TIMEOUT)
    found = record_of(call.ask(operation))
    if call.entity_format != "table":
        call.print_entity(found)
    else:
        for line in shown(found):
            click.echo(line)
    if found["fits"] or force:
        return errors.EXIT_DONE
    call.report("this job would fail; --force says yes to it all the same.")
    return errors.EXIT_REMOTE


def shown(found: Mapping[str, Any]) -> Iterator[str]:
    """The lines for people: findings first, then the numbers."""
    for one in found["findings"]:
        yield as_line(one["verdict"], one["about"], one["text"])
    estimate = found.get("estimate")
    if estimate is None:
        return
    sizes, memory, seconds = estimate["sizes"], estimate["memory"], estimate["seconds"]
    yield ""
    where = f"{found['engine']} on {found['device']}, {estimate['precision']}"
    yield f"{estimate['method']} with {where}"
    shares = f"{estimate['trained_parameters']:,} of {estimate['parameters']:,} parameters are trained"
    yield f"  model   {shares}"
    yield (
        f"  rows    {counted(int(sizes['rows']), 'row')}, {sizes['mean_tokens']:.0f} tokens each on average, "
        f"{int(sizes['longest_tokens'])} at most"
    )
    yield f"  steps   {counted(int(sizes['steps']), 'step')} of {counted(int(sizes['rows_per_step']), 'row')}"
    each = " on each device" if estimate["processes"] > 1 else ""
    total, least = size_in_words(memory["total"]), size_in_words(memory["lower_bound"])
    yield f"  memory  about {total}{each}, at least {least}"
    for part in PARTS:
        yield f"    {part:12}{size_in_words(memory[part]):>8}"
    yield f"  time    {_time(seconds)}"
    checkpoint, output = (size_in_words(estimate["saved"][what]) for what in ("checkpoint", "output"))
    yield f"  saved   {checkpoint} a checkpoint, {output} at the end"


def _time(seconds: Mapping[str, float]) -> str:
    between = f"{duration_in_words(seconds['shortest'])} to {duration_in_words(seconds['longest'])}"
    trainings = int(seconds["measured_on"])
    if not trainings:
        return f"{between}: no training with this engine and device has been measured here yet"
    return f"{between}, by the speed of {counted(trainings, 'earlier training')}"
