"""`gym eval preview`: the first requests of a run, as they would be sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nemo_gym.cli.foreign_options import EvalCommand
from nemo_gym.cli.options import json_option
from nemo_gym.cli.run_options import Chosen, load, run_options

_MOST = 1_000_000


@click.command(cls=EvalCommand)
@run_options
@click.option("-n", "--tasks", "count", type=click.IntRange(1, _MOST), default=3, help="Of how many tasks.")
@json_option
def preview(
    config_paths: tuple[str, ...],
    benchmark: str | None,
    search_dirs: tuple[Path, ...],
    verifier: str | None,
    count: int,
    as_json: bool,
    overrides: tuple[str, ...],
    **flags: Any,
) -> None:
    """Print the first requests of a run exactly as they would be sent; no server is needed.

    The options are those of `gym eval run`. The rows are checked as a run checks them.
    """
    from nemo_gym.rollouts.collect.preview import UNNAMED, first_requests

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    chosen = Chosen(config_paths, benchmark, search_dirs, verifier, overrides, flags)
    config = load(chosen, report=report)
    if config.policy_model_name is None:
        report(f"no model is named (--model), so {UNNAMED} stands for its name.")
    found = []
    for request in first_requests(config, count, report):
        if as_json:
            place = {"task_index": request.task_index, "method": "POST", "url": request.url}
            found.append({**place, "body": request.body})
        else:
            click.echo(f"task {request.task_index}: POST {request.url}")
            click.echo(json.dumps(request.body, indent=2, ensure_ascii=False))
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "requests": found}, indent=2, ensure_ascii=False))
