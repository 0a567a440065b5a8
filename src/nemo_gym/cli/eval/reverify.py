"""`gym eval reverify`: grade stored answers again."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nemo_cli.completion import files
from nemo_gym.cli import completing
from nemo_gym.cli.judge_options import chosen_judges, judge_options
from nemo_gym.cli.options import include_path_option, included_folders, json_option, overrides_argument


@click.command()
@click.option(
    "--rollouts",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The rows to grade, a rollouts.jsonl of `gym eval run`.",
)
@click.option(
    "-c",
    "--config",
    "config_paths",
    multiple=True,
    metavar="FILE",
    shell_complete=files,
    help="Config file to include; repeatable.",
)
@click.option(
    "--benchmark",
    metavar="NAME",
    shell_complete=completing.benchmark_names,
    help="The benchmark whose verifier grades (`gym list benchmarks`).",
)
@click.option(
    "--search-dir",
    "search_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to look for benchmarks and configs in; repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the graded rows to a new file; without it they replace the old ones, which are kept beside.",
)
@include_path_option
@judge_options
@json_option
@overrides_argument
def reverify(
    rollouts: Path,
    config_paths: tuple[str, ...],
    benchmark: str | None,
    search_dirs: tuple[Path, ...],
    output: Path | None,
    include_paths: tuple[Path, ...],
    as_json: bool,
    overrides: tuple[str, ...],
    **judges: tuple[str, ...],
) -> None:
    """Grade stored answers again with a benchmark's verifier; the model that answered is asked nothing.

    Options of the verifier can be changed here too, as in benchmark.verifier.abs_tolerance=0.01. Refused when
    the benchmark's prompt or agent is not the one that the answers came from. Judge models are asked where
    the verifier has them; a grading that was ended goes on with the same command, and asks nothing twice.
    """
    from nemo_gym.composition import parse_overrides
    from nemo_gym.job_paths import RolloutPaths
    from nemo_gym.rollouts.data.prepare import with_definition
    from nemo_gym.rollouts.run_config.schema import load_run_config
    from nemo_gym.rollouts.scores.reverify import reverify as grade_again

    chosen = [*included_folders(include_paths), *chosen_judges(judges), *parse_overrides(overrides)]
    config = load_run_config(config_paths, benchmark, chosen, search_dirs=search_dirs, cwd=Path.cwd()).config
    config = with_definition(config, report=lambda line: click.echo(line, err=True))
    target = None if output is None else output.absolute()
    done = grade_again(
        RolloutPaths(rollouts.absolute()),
        config,
        output=target,
        report=lambda line: click.echo(f"gym: {line}", err=True),
    )
    if as_json:
        import json

        click.echo(json.dumps(done.to_json(), indent=2, ensure_ascii=False))
        return
    done.summary.print(sys.stdout)
    click.echo(
        f"gym: {done.grades.changed:,} of {done.grades.rows:,} grades changed; rows: {done.output}", err=True
    )
    if done.grades.first:
        click.echo(f"gym: {done.grades.first:,} of them had no grade before", err=True)
    if done.superseded is not None:
        click.echo(f"gym: the old rows are kept in {done.superseded}", err=True)
