"""`gym job list`: this user's submissions from this machine, from the local index alone."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import json_option
from nemo_gym.errors import GymError

if TYPE_CHECKING:
    from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
    from nemo_gym.orchestration.records.run_annotations import Annotations

_COLUMNS = ("ID", "SUBMITTED", "CLUSTER", "EXECUTOR", "BENCHMARKS", "LABELS")


@click.command("list", short_help="Your submissions from this machine, newest first.")
@click.option("--limit", type=click.IntRange(min=1), help="The newest N only.")
@labels_option("Only submissions with this label; can be repeated.")
@json_option
def list_jobs(limit: int | None, labels: dict[str, str], as_json: bool) -> int:
    """List submissions, newest first.

    Only the local index is read, and of a benchmark that could not be queued its folder, if that is on this
    machine: no scheduler is asked, so it works offline.
    """
    from nemo_gym.cli.submissions import terminal_width
    from nemo_gym.orchestration.records import index
    from nemo_gym.text_table import table

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    records = index.newest(limit=limit, labels=labels, report=report)
    if as_json:
        shown = [{**record.to_json(), **_annotations(record).to_json()} for record in records]
        document = {"schema_version": 1, "submissions": shown}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    if not records and labels:
        report("no submission has this label; `gym job list` shows all of them.")
        return 0
    if not records:
        report("no submissions here; `gym eval submit -c FILE` makes one.")
        return 0
    rows = [_row(record) for record in records]
    tags = [" ".join(_annotations(record).tags) for record in records]
    columns = (*_COLUMNS, "TAGS") if any(tags) else _COLUMNS
    if any(tags):
        rows = [[*row, its] for row, its in zip(rows, tags, strict=True)]
    click.echo(table(columns, rows, terminal_width()))
    return 0


def _annotations(record: SubmissionRecord) -> Annotations:
    from nemo_gym.orchestration.records import run_annotations

    try:
        return run_annotations.read(run_annotations.file_of(record))
    except GymError as error:
        click.echo(f"gym: {error}", err=True)
        return run_annotations.Annotations()


def _row(record: SubmissionRecord) -> list[str]:
    benchmarks = ",".join(
        entry.benchmark if _was_queued(entry) else f"{entry.benchmark}(not queued)"
        for entry in record.benchmarks
    )
    labels = ",".join(f"{key}={value}" for key, value in record.labels.items())
    return [record.gym_job_id, record.submitted_at, record.cluster, record.executor, benchmarks, labels]


def _was_queued(entry: BenchmarkEntry) -> bool:
    """Whether a benchmark has a job: of its submission, or of a later one, which only its folder knows."""
    if entry.job_id is not None:
        return True
    from nemo_gym.job_paths import JobPaths

    paths = JobPaths(Path(entry.job_dir))
    numbers = itertools.takewhile(
        lambda number: paths.resubmission(number).folder.is_dir(), itertools.count(1)
    )
    return any(paths.resubmission(number).queued.is_file() for number in numbers)
