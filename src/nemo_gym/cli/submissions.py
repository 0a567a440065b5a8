"""How commands name submissions: full ids, unique beginnings, `latest`, run directories, labels."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nemo_gym.errors import UsageError
from nemo_runs import streams

if TYPE_CHECKING:
    from nemo_gym.orchestration.jobs import SubmissionRecord


def report(text: str) -> None:
    """One sentence on standard error."""
    click.echo(f"gym: {streams.harmless(text)}", err=True)


def terminal_width() -> int | None:
    """The columns of the terminal that shows standard output; `None` when none does."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def shows_colours() -> bool:
    """Whether standard output is a terminal that shows colours, and nobody has forbidden them."""
    forbidden = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "") in {"", "dumb", "unknown"}
    return sys.stdout.isatty() and not forbidden


def one(name: str, benchmark: str | None = None) -> SubmissionRecord:
    """The submission of a name; raises `GymError` when there is none, or none with such a benchmark.

    The name of a campaign's model stands for all of its benchmarks.
    """
    from nemo_gym.orchestration.records import index, locations

    record = index.find(name, report=report)
    locations.chosen(record, benchmark)
    return record


def only_benchmark(record: SubmissionRecord, benchmark: str | None, *, otherwise: str = "") -> str:
    """The benchmark that is named, or the only one of a submission or of a campaign's model.

    Raises `UsageError` when there are several, which ends with what can be done ``otherwise``.
    """
    from nemo_gym.orchestration.records import locations

    names = [entry.benchmark for entry in locations.chosen(record, benchmark)]
    if len(names) != 1:
        end = f" ({otherwise})" if otherwise else ""
        its = record.gym_job_id if benchmark is None else f"{benchmark} of {record.gym_job_id}"
        raise UsageError(f"{its} has {len(names)} benchmarks; name one: {', '.join(names)}{end}.")
    return names[0]


def several(
    ids: Sequence[str], labels: Mapping[str, str], *, limit: int | None = None
) -> list[SubmissionRecord]:
    """The submissions of some names, or all of the local index with some labels, newest first."""
    from nemo_gym.orchestration.records import index

    if ids and labels:
        raise UsageError("give ids or --label, not both.")
    if ids:
        found = {record.gym_job_id: record for record in map(one, ids)}
        return list(found.values())[:limit]
    return index.newest(limit=limit, labels=labels, report=report)
