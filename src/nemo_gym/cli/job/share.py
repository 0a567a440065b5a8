"""`gym job share`: a run as one file to send, with a report that opens anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option


@click.command(short_help="Pack a run with a report, as one file to send.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_or_models_of_run)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write: a ZIP, or the report alone where it ends with .html; else named after the run.",
)
@json_option
def share(name: str, benchmark: str | None, output: Path | None, as_json: bool) -> int:
    """Write a ZIP with a report of the run as one HTML page, its rollouts as a table, and its manifests.

    The page holds everything that it shows and asks no server for anything. Job scripts, logs and addresses
    are not in the file, nor are questions and answers of benchmarks that must stay unpublished (GPQA). ID is
    what `gym job show` takes. Nothing is sent anywhere.
    """
    from nemo_gym.cli.exporting import report_unpublished
    from nemo_gym.cli.submissions import report
    from nemo_gym.orchestration.records import remote_copy
    from nemo_gym.orchestration.records.run_outputs import run_outputs
    from nemo_gym.rollouts.export.writing import ExportRequest, exported, write_export

    bring = remote_copy.for_certificate(benchmark)
    with remote_copy.RemoteCopy(bring, report=report, why="results are fetched") as near:
        run = run_outputs(name, benchmark, near)
        outputs = exported(run.name, run.outputs, run.labels, run.models)
        report_unpublished(outputs)
        form = "report" if output is not None and output.suffix == ".html" else "share"
        written = write_export(outputs, ExportRequest(form=form, path=output))
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "path": str(written)}, indent=2))
    else:
        click.echo(str(written))
    return 0
