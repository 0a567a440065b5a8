"""`gym eval prepare`: make or download a benchmark's data."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_cli.completion import files
from nemo_gym.cli import completing
from nemo_gym.cli.options import include_path_option, included_folders, json_option, overrides_argument


@click.command()
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
    help="A benchmark by name (`gym list benchmarks`).",
)
@click.option(
    "--search-dir",
    "search_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to look for benchmarks and configs in; repeatable.",
)
@click.option("--split", type=click.Choice(["benchmark", "validation", "train"]), help="Which data.")
@include_path_option
@json_option
@overrides_argument
def prepare(
    config_paths: tuple[str, ...],
    benchmark: str | None,
    search_dirs: tuple[Path, ...],
    split: str | None,
    include_paths: tuple[Path, ...],
    as_json: bool,
    overrides: tuple[str, ...],
) -> None:
    """Make or download a benchmark's data and print where it is.

    Arguments of the benchmark's own script: +prepare_script_args.NAME=VALUE. Data that is there is kept;
    other arguments make another file. The named environment of its sandbox is installed, too.
    """
    from nemo_gym.composition import Override, parse_overrides
    from nemo_gym.rollouts.data.prepare import data_path, ensure_data, ensure_environments
    from nemo_gym.rollouts.run_config.schema import load_run_config

    chosen = [Override("split", split, "", f"split={split}")] if split else []
    config = load_run_config(
        config_paths,
        benchmark,
        [*included_folders(include_paths), *parse_overrides(overrides), *chosen],
        search_dirs=search_dirs,
        cwd=Path.cwd(),
    ).config
    was_there = data_path(config).is_file()
    path = ensure_data(config, report=lambda line: click.echo(line, err=True))
    ensure_environments(config, report=lambda line: click.echo(line, err=True))
    if as_json:
        import json

        document = {"benchmark": config.benchmark.name, "path": str(path), "made": not was_there}
        click.echo(json.dumps(document))
    else:
        click.echo(path)
