"""`gym list benchmarks`: what can be run by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_gym.cli.options import json_option
from nemo_runs.counts import counted

if TYPE_CHECKING:
    from nemo_gym.rollouts.data.benchmark_list import ListedBenchmark


@click.command("benchmarks")
@click.option(
    "--search-dir",
    "search_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to look for benchmarks in; repeatable.",
)
@json_option
def list_benchmarks(search_dirs: tuple[Path, ...], as_json: bool) -> None:
    """List the benchmarks that `--benchmark NAME` finds."""
    from nemo_gym.rollouts.data import benchmark_list

    entries = benchmark_list.list_benchmarks(search_dirs)
    if as_json:
        import json

        click.echo(json.dumps([_document(entry) for entry in entries], indent=2))
        return
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        click.echo(
            f"{entry.name:<{width}}  {_state(entry):<12}  {_repeats(entry):<11}  {entry.description}".rstrip()
        )
    for entry in entries:
        if entry.error:
            click.echo(f"gym: {entry.name} cannot be used: {entry.error}", err=True)


def _state(entry: ListedBenchmark) -> str:
    if entry.error:
        return "broken"
    return "prepared" if entry.prepared else "not prepared"


def _repeats(entry: ListedBenchmark) -> str:
    return counted(entry.num_repeats, "repeat")


def _document(entry: ListedBenchmark) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.description,
        "path": str(entry.path),
        "num_repeats": entry.num_repeats,
        "prepared": entry.prepared,
        "error": entry.error,
    }
