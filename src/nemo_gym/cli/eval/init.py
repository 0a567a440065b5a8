"""`gym eval init`: write a benchmark for a file of one's own questions."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from nemo_cli.completion import files
from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option
from nemo_gym.cli.run_options import parse_verifier
from nemo_gym.errors import UsageError


@click.command()
@click.argument("name")
@click.option(
    "--from",
    "rows",
    metavar="FILE",
    shell_complete=files,
    required=True,
    help="The rows: JSON Lines, CSV, Parquet.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("benchmarks"),
    help="Where benchmarks are, in place of ./benchmarks.",
)
@click.option(
    "--verifier",
    metavar="TYPE|YAML",
    shell_complete=completing.verifier_names,
    help="How answers are graded, if that is not to be guessed.",
)
@json_option
def init(name: str, rows: str, folder: Path, verifier: str | None, as_json: bool) -> None:
    """Write the configuration of a benchmark for a file of rows, and say what was guessed.

    It is FOLDER/NAME/config.yaml, which runs as it is: every row was checked. Nothing is written for rows
    that could not be asked or graded.
    """
    import re

    from nemo_gym.rollouts.collect.new_benchmark import write_benchmark

    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name.strip(".") == "":
        raise UsageError(f"NAME: {name!r} must consist of letters, digits, '.', '_' and '-'.")
    path = Path(rows).expanduser().absolute()
    target, guess = write_benchmark(name, path, folder.absolute(), verifier=parse_verifier(verifier))
    if as_json:
        document = {
            "schema_version": 1,
            "path": str(target),
            "benchmark": guess.benchmark,
            "guessed": guess.said,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for key, words in guess.said.items():
        click.echo(f"gym: guessed for benchmark.{key}: {words}", err=True)
    where = "" if folder == Path("benchmarks") else f"--search-dir {shlex.quote(str(folder))} "
    click.echo(f"gym: look at the first requests: gym eval preview {where}--benchmark {name}", err=True)
    click.echo(target)
