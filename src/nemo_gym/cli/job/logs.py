"""`gym job logs`: one log of a benchmark over all of its jobs, followed from job to job if asked."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option
from nemo_gym.errors import EXIT_DONE, UsageError

if TYPE_CHECKING:
    from nemo_gym.chain.evidence import Evidence
    from nemo_gym.orchestration.jobs import SubmissionRecord
    from nemo_gym.orchestration.records.run_files import RunFiles
    from nemo_gym.orchestration.status.machines import SubmissionMachines

_HERE, _ELSEWHERE = 0.5, 5.0
"""Seconds between two looks at a log on this machine, and on another one."""


@click.command(short_help="A log over all jobs of a benchmark; -f follows it.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_of_run)
@click.argument("source", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on as it grows, into the next jobs, until the end.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@json_option
def logs(
    name: str, benchmark: str | None, source: str | None, follow: bool, tail: int | None, as_json: bool
) -> int:
    """Print a log of a benchmark: `driver`, `prepare`, a service's name, `otel_collector`, or `job` for what
    the job script itself said. Unless one is given it is `driver`, or `job` where no driver has started.
    BENCHMARK can be left out where the submission has only one.

    The logs of several jobs come in their order, each after a line `==> … <==`. A source that does not exist
    is answered with those that there are.
    """
    if follow and as_json:
        raise UsageError("--json prints one document, so it cannot follow; leave out -f or --json.")
    from nemo_gym.orchestration.status import logs as reading
    from nemo_gym.orchestration.status.machines import SubmissionMachines

    record, benchmark, source = _named(name, benchmark, source)
    with SubmissionMachines() as machines:
        known, _ = _look(record, benchmark, machines)
        files = machines.of(record).files
        if follow:
            return _follow(record, benchmark, source, tail, machines)
        source = source or _chosen(known, files)
        reading.refuse_unknown(known, source, files)
        found = reading.pieces(known, source, files)
        if as_json:
            click.echo(json.dumps(_document(known, source, tail, files), indent=2, ensure_ascii=False))
        elif tail is not None:
            _write(reading.tail(found, files, tail))
        else:
            for data in reading.whole(found, files):
                _write(data)
    return EXIT_DONE


def _named(name: str, benchmark: str | None, source: str | None) -> tuple[SubmissionRecord, str, str | None]:
    """Submission, benchmark and the source that is given; with one benchmark alone, a lone word is it."""
    from nemo_gym.cli.submissions import one, only_benchmark

    record = one(name)
    names = [entry.benchmark for entry in record.benchmarks]
    if source is None and len(names) == 1 and benchmark not in (None, *names):
        benchmark, source = None, benchmark
    if benchmark is not None:
        one(name, benchmark)
    return record, only_benchmark(record, benchmark), source


def _look(record: SubmissionRecord, benchmark: str, machines: SubmissionMachines) -> tuple[Evidence, bool]:
    """What is known, and whether more is to come."""
    from nemo_gym.orchestration.status.gather import Scope, gather
    from nemo_gym.orchestration.status.report import assess

    known = gather([record], machines, scope=Scope(benchmark=benchmark))[record.gym_job_id, benchmark]
    return known, not assess(known).state.final


def _chosen(known: Evidence, files: RunFiles) -> str:
    """The log to show when none is named; where it is not the driver's, that is said on stderr."""
    from nemo_gym.orchestration.status import logs as reading

    source = reading.to_show(known, files)
    if source != reading.DEFAULT:
        others = ", ".join(name for name in reading.sources(known, files) if name != source)
        more = f" There are also: {others}." if others else ""
        click.echo(f"gym: no driver has started, so this is what the job script said.{more}", err=True)
    return source


def _follow(
    record: SubmissionRecord,
    benchmark: str,
    source: str | None,
    tail: int | None,
    machines: SubmissionMachines,
) -> int:
    from nemo_gym.orchestration.records.run_files import LocalRunFiles
    from nemo_gym.orchestration.status import logs as reading

    files = machines.of(record).files
    known, live = _look(record, benchmark, machines)
    if not live:
        source = source or _chosen(known, files)
        reading.refuse_unknown(known, source, files)
    source = source or reading.DEFAULT
    follower = reading.LogFollower(source, files)
    if tail is not None:
        found = reading.pieces(known, source, files)
        _write(reading.tail(found, files, tail))
        follower.start_at_end(found)
    every = _HERE if isinstance(files, LocalRunFiles) else _ELSEWHERE
    reading.follow(follower, lambda: _look(record, benchmark, machines), _write, every=every)
    return EXIT_DONE


def _document(known: Evidence, source: str, tail: int | None, files: RunFiles) -> dict[str, Any]:
    from nemo_gym.orchestration.status import logs as reading

    parts = []
    for piece in reading.pieces(known, source, files):
        data = b"".join(reading.whole([piece], files)) if tail is None else reading.tail([piece], files, tail)
        text = data.decode("utf-8", "replace")
        parts.append({"job_id": piece.job_id, "path": str(piece.path), "text": text})
    head = {"gym_job_id": known.gym_job_id, "benchmark": known.benchmark, "source": source}
    return {"schema_version": 1, **head, "logs": parts}


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
