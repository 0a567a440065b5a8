"""`gym job verify`: a certificate that every expected rollout is there exactly once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option

if TYPE_CHECKING:
    from nemo_gym.orchestration.results.verify import Verification


@click.command(short_help="Certify that results are whole.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_or_models_of_run)
@json_option
def verify(name: str, benchmark: str | None, as_json: bool) -> int:
    """Certify the results of a submission: every expected rollout is there exactly once, none torn or
    damaged, and the digests of manifest, materialized inputs and configuration match.

    ID is a full id, the unique beginning of one, `latest`, a run directory (a fetched one too), or a folder
    or file that `gym eval run` wrote. Of a run on another machine, results and records are fetched into a
    temporary folder that is removed again. Nothing else is written. Ends with 1 when anything is wrong, and
    says what.
    """
    from nemo_gym.errors import EXIT_DONE, EXIT_ERROR
    from nemo_gym.orchestration.records import remote_copy
    from nemo_gym.orchestration.records.run_outputs import run_without_record
    from nemo_gym.orchestration.results.verify import verify as verify_submission
    from nemo_gym.orchestration.results.verify import verify_outputs

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    bring = remote_copy.for_certificate(benchmark)
    with remote_copy.RemoteCopy(bring, report=report, why="results and records are fetched") as near:
        local = run_without_record(name, benchmark)
        found = verify_outputs(local) if local else verify_submission(near.find(name), benchmark)
    click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if as_json else _text(found))
    return EXIT_DONE if found.valid else EXIT_ERROR


def _text(found: Verification) -> str:
    lines = ["  ".join(filter(None, (found.gym_job_id, found.run_dir)))]
    lines += [f"  wrong: {problem}" for problem in found.problems]
    for benchmark in found.benchmarks:
        lines += ["", *benchmark.lines()]
    return "\n".join([*lines, "", found.sentence])
