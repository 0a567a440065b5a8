"""`gym job export`: results for other programs, in their own formats."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option

_FORMATS = ("parquet", "csv", "lm-eval", "inspect", "wandb", "mlflow", "model-card")


@click.command(short_help="Write results in another program's format.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_or_models_of_run)
@click.option("--to", "form", required=True, type=click.Choice(_FORMATS), help="The format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file or folder to write; one named after the run, in the current folder, unless given.",
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="BENCHMARK=OWNER/NAME[:TASK]",
    help="For model-card: the hub's data set of a benchmark; can be repeated.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For wandb and mlflow: an interpreter that has the package.",
)
@json_option
def export(
    name: str,
    benchmark: str | None,
    form: str,
    output: Path | None,
    datasets: tuple[str, ...],
    python: Path | None,
    as_json: bool,
) -> int:
    """Write the results of a run: rollouts as a table (parquet, csv), results and samples of lm-eval, a log
    of Inspect, an offline run of W&B, an MLflow store, or scores for a model's page on the hub.

    ID is what `gym job show` takes. Nothing is sent anywhere, and nothing that is there is overwritten.
    Questions and answers of benchmarks that must stay unpublished (GPQA) are left out; their scores are not.
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
        request = ExportRequest(form=form, path=output, datasets=datasets, python=python)
        written = write_export(outputs, request)
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "format": form, "path": str(written)}, indent=2))
    else:
        click.echo(str(written))
    return 0
