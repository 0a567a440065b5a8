"""`nemo jobs plot`: the metrics of jobs as charts in the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation

HEIGHT = 12


@click.command(short_help="Losses and other metrics of jobs, as charts.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="PATTERN",
    help="Show only these metrics, such as '*loss'; can be given several times.",
)
@click.option(
    "--height", type=click.IntRange(min=4, max=200), default=HEIGHT, show_default=True, help="Lines a chart."
)
@workspace_option
@command_options
def plot(flags: GlobalFlags, names: tuple[str, ...], metrics: tuple[str, ...], height: int) -> None:
    """Draw what jobs measure while they train, by training step; several jobs share a chart.

    A vertical line is where training went on after a pause, an interruption or a rerun.
    """
    from nemo_helix_plugin.job_words import curves

    call = CommandContext(flags)
    names = tuple(dict.fromkeys(names))
    operations = [Operation("jobs.get_job", {"name": name, "workspace": call.workspace}) for name in names]
    if [one for one in operations if call.prints_code(one)]:
        return
    jobs = {name: record_of(call.ask(one)) for name, one in zip(names, operations, strict=True)}
    found = {name: curves.curves_of(job, metrics) for name, job in jobs.items()}
    if call.output_format in {"csv", "markdown"} or call.entity_format != "table":
        print_rows(call, found)
        return
    for name, of_job in found.items():
        if not of_job:
            call.report(_nothing(jobs[name], name, metrics))
    if any(found.values()):
        _draw(call, {name: of_job for name, of_job in found.items() if of_job}, height)


def _draw(call: CommandContext, found: Mapping[str, Any], height: int) -> None:
    from nemo_helix_plugin.job_words import curves

    bills = {
        name: record_of(call.ask(Operation("jobs.get_job_bill", {"name": name, "workspace": call.workspace})))
        for name in found
    }
    breaks = {name: curves.breaks_of(bill) for name, bill in bills.items()}
    click.echo(drawn(call, found, breaks, height))


def drawn(call: CommandContext, found: Mapping[str, Any], breaks: Mapping[str, Any], height: int) -> str:
    """The charts of curves by job, as wide as the terminal; names cannot steer it."""
    from nemo_helix_plugin.cli.output.cells import printable
    from nemo_helix_plugin.job_words import text_chart

    shown = {
        name: [replace(curve, name=printable(curve.name)) for curve in of_job]
        for name, of_job in found.items()
    }

    charts = text_chart.charts(
        shown,
        breaks,
        width=min(shutil.get_terminal_size().columns, 120),
        height=height,
        color=bool(call.console.color_system),
        unicode=call.display.unicode,
    )
    return "\n\n".join(charts)


def print_rows(call: CommandContext, found: Mapping[str, Any]) -> None:
    """The values, by job and step."""
    from nemo_helix_plugin.job_words import curves

    rows = [{"job": name, **row} for name, of_job in found.items() for row in curves.rows(of_job)]
    columns = list(dict.fromkeys(column for row in rows for column in row)) or ["job", "step"]
    call.print_list([{column: row.get(column) for column in columns} for row in rows], columns)


def _nothing(job: Mapping[str, Any], name: str, patterns: tuple[str, ...]) -> str:
    """Why there is nothing to draw of a job."""
    from nemo_helix_plugin.job_words import curves

    there = [curve.name for curve in curves.curves_of(job)]
    if patterns and there:
        return f"job '{name}' has no metric like {' or '.join(patterns)}; it has {', '.join(there)}."
    return f"job '{name}' is {job.get('status')} and has no metrics yet."
