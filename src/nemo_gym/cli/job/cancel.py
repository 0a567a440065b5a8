"""`gym job cancel`: the end of one benchmark, or of a whole submission, for good."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option
from nemo_gym.errors import UsageError

if TYPE_CHECKING:
    from nemo_gym.orchestration.jobs import SubmissionRecord
    from nemo_gym.orchestration.submit.cancel import CancelReport


@click.command(short_help="End a benchmark, or all of a submission, for good.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_or_models_of_run)
@click.option("--all", "everything", is_flag=True, help="All benchmarks of the submission; asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--reason", default="no reason was given", metavar="TEXT", help="Is recorded with the run.")
@click.option(
    "--within",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until every job has ended.",
)
@json_option
def cancel(
    name: str,
    benchmark: str | None,
    everything: bool,
    yes: bool,
    reason: str,
    within: float,
    as_json: bool,
) -> int:
    """Write down that the benchmark is cancelled, end what waits, then what runs, and look until nothing is
    left.

    Ends with 0 when every job is final, and with 4 when jobs are still alive or it is not known whether they
    are; those are named. What is recorded stays: `gym job resubmit` goes on from there. BENCHMARK can be left
    out where the submission has only one; of a campaign it may be a model: all of its benchmarks.
    """
    if benchmark is not None and everything:
        raise UsageError("give one benchmark, or --all.")
    from nemo_gym.cli.submissions import one, only_benchmark
    from nemo_gym.orchestration.status.machines import SubmissionMachines
    from nemo_gym.orchestration.submit import cancel as cancelling
    from nemo_gym.orchestration.submit.submitting_host import username

    record = one(name, benchmark)
    if benchmark is None and not everything:
        benchmark = only_benchmark(record, benchmark, otherwise="or give --all")
    elif everything and not yes:
        _confirm(record)
    request = cancelling.CancelRequest(
        record=record, benchmark=benchmark, by=username(), why=" ".join(reason.split()), within=within
    )
    with SubmissionMachines() as machines:
        report = cancelling.cancel(request, machines)
    _show(report, as_json=as_json)
    return report.exit_status


def _confirm(record: SubmissionRecord) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("--all asks first, and there is nobody to ask; add --yes.")
    names = ", ".join(entry.benchmark for entry in record.benchmarks)
    click.confirm(f"End all of {record.gym_job_id} ({names})?", abort=True, err=True)


def _show(report: CancelReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    for outcome in () if as_json else report.outcomes:
        asked = f"; asked {', '.join(outcome.asked)} to end" if outcome.asked else ""
        if not (asked or outcome.alive or outcome.unsure or report.problems):
            asked = "; nothing was alive"
        click.echo(f"{outcome.benchmark}: {outcome.state}{asked}")
    for problem in report.problems:
        click.echo(f"gym: {problem}", err=True)
    for outcome in report.outcomes:
        for words, jobs in (("still alive", outcome.alive), ("state not known", outcome.unsure)):
            if jobs:
                again = "the request stays"
                if not set(jobs) <= set(outcome.left_alone):  # else it would be left alone once more
                    again += "; give the command again to go on"
                click.echo(f"gym: {outcome.benchmark}: {words}: {', '.join(jobs)}; {again}.", err=True)
