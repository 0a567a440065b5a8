"""`gym list benchmarks`: what can be run by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_gym.cli.options import include_path_option, json_option
from nemo_runs.counts import counted

if TYPE_CHECKING:
    from nemo_gym.rollouts.data.benchmark_list import ListedBenchmark


@click.command("benchmarks")
@click.argument("prefix", required=False)
@click.option(
    "--search-dir",
    "search_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to look for benchmarks in; repeatable.",
)
@include_path_option
@json_option
def list_benchmarks(
    prefix: str | None, search_dirs: tuple[Path, ...], include_paths: tuple[Path, ...], as_json: bool
) -> None:
    """List the benchmarks that `--benchmark NAME` finds, or those whose names begin with PREFIX: whether
    their data is there, and where it is from with its version and license.

    The tasks of lm-evaluation-harness are listed for a PREFIX that begins with lm_eval/.
    """
    from nemo_gym.harness import names
    from nemo_gym.rollouts.data import benchmark_list

    if prefix is not None and prefix.startswith(names.PREFIX):
        _list_tasks(prefix, include_paths, as_json)
        return
    if include_paths:
        raise click.UsageError("--include-path holds tasks of lm-eval; list them with the prefix lm_eval/.")
    entries = benchmark_list.list_benchmarks(search_dirs)
    entries = [entry for entry in entries if entry.name.startswith(prefix or "")]
    if as_json:
        import json

        click.echo(json.dumps([_document(entry) for entry in entries], indent=2))
        return
    if not entries:
        from nemo_runs.suggestions import did_you_mean

        meant = did_you_mean(names.meant(f"{prefix}/".replace("//", "/")))
        click.echo(f"gym: no benchmark begins with '{prefix}'{meant or '.'}", err=True)
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        words = [
            f"{entry.name:<{width}}",
            f"{_state(entry):<12}",
            f"{_repeats(entry):<11}",
            entry.description,
        ]
        click.echo("  ".join(words).rstrip())
        if entry.source is not None:
            source = entry.source
            click.echo(f"{'':<{width}}  {source.address} ({source.version}); license: {source.license}")
    for entry in entries:
        if entry.error:
            click.echo(f"gym: {entry.name} cannot be used: {entry.error}", err=True)


def _list_tasks(prefix: str, include_paths: tuple[Path, ...], as_json: bool) -> None:
    from nemo_gym.harness import names

    found = names.listed(include_paths, report=lambda line: click.echo(line, err=True))
    found = [task for task in found if task.name.startswith(prefix)]
    if as_json:
        import json
        from dataclasses import asdict

        click.echo(json.dumps([asdict(task) for task in found], indent=2))
        return
    width = max((len(task.name) for task in found), default=0)
    for task in found:
        kind = task.output_type or task.kind
        click.echo(f"{task.name:<{width}}  {kind:<21}  {task.data or ''}".rstrip())


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
        "source": None if entry.source is None else entry.source.model_dump(),
        "unpublished": entry.unpublished,
        "error": entry.error,
    }
