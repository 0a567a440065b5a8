"""`gym job resubmit`: a benchmark is queued again in place."""

from __future__ import annotations

import json
import os

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import duration, json_option
from nemo_gym.errors import EXIT_DONE, EXIT_ERROR

_OTHERWISE = "of a campaign, a model stands for all of its benchmarks"


@click.command(short_help="Queue a benchmark again in place.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_or_models_of_run)
@click.option(
    "--max-retries",
    type=click.IntRange(min=0, max=2_147_483_647),
    metavar="N",
    help="Raise the retries of the chain to N.",
)
@click.option(
    "--max-walltime",
    metavar="T",
    callback=duration,
    help="Raise the walltime of the chain to T: HH:MM:SS, D-HH, …",
)
@click.option("--reason", default="", metavar="TEXT", help="Is recorded; needed when a budget is raised.")
@json_option
def resubmit(
    name: str,
    benchmark: str | None,
    max_retries: int | None,
    max_walltime: str | None,
    reason: str,
    as_json: bool,
) -> int:
    """Queue a benchmark again, in its folder and on top of its results.

    BENCHMARK can be left out where the submission has only one; of a campaign it may be a model: all of its
    benchmarks that have not succeeded, each in a job of its own.

    Refused (status 5) while anything of it is alive or may be, when it has succeeded, and when its walltime
    is used up and not raised. Both budgets count everything since the first job, and can only be raised.
    """
    from nemo_gym.cli.submissions import one, only_benchmark, report
    from nemo_gym.orchestration.status.machines import SubmissionMachines
    from nemo_gym.orchestration.submit import resubmit as resubmitting
    from nemo_gym.orchestration.submit.submitting_host import username

    record = one(name, benchmark)
    request = resubmitting.ResubmitRequest(
        record=record,
        benchmark=benchmark or only_benchmark(record, None, otherwise=_OTHERWISE),
        by=username(),
        environ=os.environ,
        reason=reason,
        max_retries=max_retries,
        max_walltime=max_walltime,
    )
    found: resubmitting.Resubmitted | resubmitting.ResubmitReport
    with SubmissionMachines() as machines:
        if any(entry.benchmark == request.benchmark for entry in record.benchmarks):
            found = resubmitting.resubmit(request, machines)
            done, problems = [found], []
        else:
            found = resubmitting.resubmit_model(request, machines)
            done, problems = found.done, found.problems
            if found.succeeded and not as_json:
                report(f"passed over, since nothing is left to do: {', '.join(found.succeeded)}.")
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        for each in done:
            click.echo(f"resubmitted {each.benchmark} → job {each.job_id}")
        click.echo(f"Status: gym job status {record.gym_job_id}")
    for problem in problems:
        report(problem)
    return EXIT_ERROR if problems else EXIT_DONE
