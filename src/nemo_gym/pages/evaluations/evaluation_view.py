"""The values of the page of one evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nemo_gym.errors import GymError
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.results import bill_report
from nemo_gym.orchestration.results.bill import Bill
from nemo_gym.orchestration.status import logs
from nemo_gym.orchestration.status.report_text import cause_in_words
from nemo_gym.pages.evaluations.chain_timeline import PARTS, TimelineLink, timeline
from nemo_gym.pages.evaluations.late_answers import bill_of, certificate_of
from nemo_gym.pages.evaluations.state_groups import group_of, group_of_word
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.pages.index.output_index import ReadingState
from nemo_gym.pages.index.rollout_query import OutcomeCounts, TaskScore
from nemo_gym.rollouts.scores.summary import Summary, load_summary
from nemo_pages.runs.rows import RunProgress, StateGroup
from nemo_runs.clock import moment

SUMMED_UP = frozenset({"benchmark", "model"})
"""Headings of a summary that the page says elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkView:
    """One benchmark as the page shows it."""

    known: KnownBenchmark
    group: StateGroup
    cause: str
    progress: RunProgress | None
    summary: Summary | None
    lines: list[tuple[str, str]]
    """The summary in words, as `gym eval run` prints it."""
    problem: str
    """Why the summary cannot be read."""
    links: list[TimelineLink]
    logs: list[str]
    """Sources of logs."""
    reading: ReadingState | None
    counts: OutcomeCounts
    tasks: list[TaskScore]
    task_pages: int
    failures: list[tuple[str, int]]


def evaluation_values(index: EvaluationIndex, run: KnownRun, *, task_page: int = 1) -> dict[str, Any]:
    """Everything that the templates of the page need."""
    bill, certificate = bill_of(index, run), certificate_of(index, run)
    bills = bill.value or []
    return {
        "run": run,
        "made_at": seconds_of(run.made_at),
        "group": group_of_word(run.state),
        "benchmarks": [_benchmark(index, run, each, bills, task_page) for each in run.benchmarks],
        "bill": bill,
        "bill_columns": [name.capitalize().replace("Gpu", "GPU") for name in bill_report.COLUMNS[1:]],
        "bill_rows": [row[1:] for row in bill_report.rows(bills)] if bills else [],
        "bill_remarks": bill_report.remarks(bills) if bills else [],
        "certificate": certificate,
        "parts_of_time": PARTS,
        "task_page": task_page,
        "seen_at": run.seen_at,
        "others": [other for other in index.runs() if other.run_id != run.run_id][:50],
    }


def topic_of(run_id: str) -> str:
    """The topic of events that says that something of a run changed."""
    return f"evaluation-{run_id}"


def seconds_of(text: str) -> float | None:
    """A time of a record as UTC seconds."""
    try:
        return moment(text) / 1_000_000
    except ValueError:
        return None


def progress_of(known: KnownBenchmark) -> RunProgress | None:
    """How far a benchmark is, and how long it takes over all jobs that it still needs."""
    if known.done is None:
        return None
    status = known.status
    return RunProgress(
        done=known.done,
        total=known.expected,
        unit="rollouts",
        left_s=status.left_s if status is not None else None,
        how=status.left_how if status is not None else "",
    )


def _benchmark(
    index: EvaluationIndex, run: KnownRun, known: KnownBenchmark, bills: list[Bill], task_page: int
) -> BenchmarkView:
    summary, problem = _summary(known)
    table = index.rollouts(run, known)
    tasks, pages = table.ask(queries.task_scores, task_page) if table is not None else ([], 1)
    bill = next((each for each in bills if each.benchmark == known.name), None)
    return BenchmarkView(
        known=known,
        group=group_of(known),
        cause=cause_in_words(known.status.cause) if known.status is not None else "",
        progress=progress_of(known),
        summary=summary,
        lines=[line for line in summary.lines() if line[0] not in SUMMED_UP] if summary is not None else [],
        problem=problem,
        links=timeline(known.evidence, known.reason, bill) if known.evidence is not None else [],
        logs=_log_sources(run, known),
        reading=table.state() if table is not None else None,
        counts=table.ask(queries.counts) if table is not None else OutcomeCounts(),
        tasks=tasks,
        task_pages=pages,
        failures=table.ask(queries.failure_classes) if table is not None else [],
    )


def _summary(known: KnownBenchmark) -> tuple[Summary | None, str]:
    if known.paths is None:
        return None, ""
    try:
        return load_summary(known.paths), ""
    except (GymError, OSError) as error:
        return None, str(error)


def _log_sources(run: KnownRun, known: KnownBenchmark) -> list[str]:
    if known.evidence is None or run.folder is None:
        return []
    return list(logs.sources(known.evidence, LocalRunFiles()))
