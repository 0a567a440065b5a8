"""What can be asked about submissions: which there are, and what came out of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nemo_gym.errors import DataError
from nemo_gym.job_paths import JobPaths, RolloutPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records.index import Reporter
from nemo_gym.orchestration.status import chain_head
from nemo_gym.text_table import table
from nemo_runs.counts import counted
from nemo_runs.durable import files

if TYPE_CHECKING:
    from nemo_gym.rollouts.scores.group_scores import GroupScore
    from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric

Status = Literal["complete", "incomplete", "unfinished", "no results", "not fetched", "not queued"]

_NOT_IN_CSV = frozenset({"groups", "key_metrics", "metrics", "until"})
_RESULT_COLUMNS = ("ID", "BENCHMARK", "STATUS", "SCORE", "95% INTERVAL", "COVERAGE", "MODEL")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """What came out of one benchmark, as far as its folder shows."""

    gym_job_id: str
    benchmark: str
    status: Status
    """``complete``: all that was expected is measured; ``unfinished``: at work, or no summary."""
    score: float | None = None
    """Mean reward over the measured rollouts, in [0, 1]; else the value of `metric`."""
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval."""
    expected: int | None = None
    measured: int | None = None
    failed: int | None = None
    missing: int | None = None
    coverage: float | None = None
    """Measured of expected rollouts, in [0, 1]."""
    model: str | None = None
    detail: str = ""
    """What there is to say when the benchmark is not complete."""
    job_id: str | None = None
    job_dir: str = ""
    output: str = ""
    """The file of its result rows."""
    key_metrics: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, MeasuredMetric] = field(default_factory=dict)
    """The verifier's metrics by name."""
    groups: Sequence[GroupScore] = ()
    """Scores of groups of tasks, for the benchmark's ``group_by``."""
    not_needed: int = 0
    """Rollouts that were not asked, since the run's question was answered before."""
    until: Mapping[str, Any] | None = None
    """Of a run that may stop early: rule, seed, tasks used, outcome, limits."""
    label: str | None = None
    """The model's name in the campaign; ``None``: not of a campaign."""
    task: str = ""
    """The benchmark without that name; empty: as `benchmark`."""
    metric: str | None = None
    """The metric that `score` is; ``None``: the mean reward."""

    @property
    def column(self) -> str:
        """The benchmark, for whatever model."""
        return self.task or self.benchmark

    def shown(self, value: float, *, sign: str = "") -> str:
        """A score or an end of its interval: in percent with ``sign`` behind it, a metric's as it is."""
        return f"{100 * value:.1f}{sign}" if self.metric is None else f"{value:.4g}"

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)


def results(record: SubmissionRecord, *, report: Reporter) -> list[BenchmarkResult]:
    """One result per benchmark, in the record's order; only files in its folder are read.

    What cannot be read is passed to ``report`` and shows as ``no results``.
    """
    return [_result(record, entry, report) for entry in record.benchmarks]


def _result(record: SubmissionRecord, entry: BenchmarkEntry, report: Reporter) -> BenchmarkResult:
    gym_job_id = record.gym_job_id
    known: dict[str, Any] = {
        "gym_job_id": gym_job_id,
        "benchmark": entry.benchmark,
        "job_id": entry.job_id,
        "job_dir": entry.job_dir,
        "output": str(JobPaths(Path(entry.job_dir)).rollouts.output),
        "label": entry.model,
        "task": entry.task,
    }
    # one that could not be queued at first may have been resubmitted, and a chain has later jobs
    newest = chain_head.last_started(Path(entry.job_dir)) or entry.job_id
    if newest is None:
        return BenchmarkResult(**known, status="not queued", detail=entry.error or "")
    if record.hostname is not None and not Path(entry.job_dir).is_dir():
        elsewhere = f"its files are on {record.hostname}; gym job fetch {gym_job_id} copies them"
        return BenchmarkResult(**known, status="not fetched", detail=elsewhere)
    try:
        return BenchmarkResult(**known, **_read(JobPaths(Path(entry.job_dir)), newest))
    except (DataError, OSError) as error:
        report(f"{entry.benchmark} of {gym_job_id}: {error}")
        return BenchmarkResult(**known, status="no results", detail="its files cannot be read")


def _read(paths: JobPaths, job_id: str) -> dict[str, Any]:
    if not paths.job_dir.is_dir():
        return {"status": "no results", "detail": f"there is no folder {paths.job_dir} on this machine"}
    return _read_output(paths.rollouts, _ended(paths, job_id))


def results_without_record(
    run: str, outputs: Mapping[str, RolloutPaths], *, report: Reporter
) -> list[BenchmarkResult]:
    """The same of outputs that belong to no submission; ``run`` is what to call them."""
    tasks = _benchmarks_of(outputs)
    return [_of_output(run, name, paths, tasks.get(name, ""), report) for name, paths in outputs.items()]


def with_metric(row: BenchmarkResult, name: str) -> BenchmarkResult:
    """The result with one of its metrics in place of the score; without a score where it has none such."""
    found = row.metrics.get(name)
    if found is not None:
        return replace(row, metric=name, score=found.value, low=found.low, high=found.high)
    known = ", ".join(row.metrics) or "none"
    detail = row.detail if row.score is None and not row.metrics else f"no metric {name}; there are {known}"
    return replace(row, metric=name, score=None, low=None, high=None, detail=detail)


def _benchmarks_of(outputs: Mapping[str, RolloutPaths]) -> dict[str, str]:
    """The benchmark of each output by its manifest, unless two outputs have the same one."""
    from nemo_gym.rollouts.output.manifest import load_manifest

    found = {}
    for name, paths in outputs.items():
        try:
            manifest = load_manifest(paths.manifest)
        except (DataError, OSError):
            continue  # said when its results are read
        if manifest is not None and manifest.benchmark is not None:
            found[name] = manifest.benchmark
    return found if len(set(found.values())) == len(found) else {}


def _of_output(run: str, name: str, paths: RolloutPaths, task: str, report: Reporter) -> BenchmarkResult:
    known: dict[str, Any] = {"gym_job_id": run, "benchmark": name, "task": task}
    known |= {"job_dir": str(paths.output.parent), "output": str(paths.output)}
    try:
        return BenchmarkResult(**known, **_read_output(paths, ""))
    except (DataError, OSError) as error:
        report(f"{name} of {run}: {error}")
        return BenchmarkResult(**known, status="no results", detail="its files cannot be read")


def _read_output(paths: RolloutPaths, ended: str) -> dict[str, Any]:
    from nemo_gym.rollouts.output.manifest import load_manifest
    from nemo_gym.rollouts.scores.summary import load_summary

    manifest = load_manifest(paths.manifest)
    model = _model(manifest.model, manifest.generation) if manifest is not None else None
    progress = _json(paths.progress)
    summary = load_summary(paths)
    at_work = progress.get("state") in ("running", "draining") and not ended
    if summary is None or at_work:
        return {**_unfinished(progress, ended, started=manifest is not None), "model": model}
    coverage, score = summary.coverage, summary.score
    whole = summary.whole
    return {
        "status": "complete" if whole else "incomplete",
        "score": None if score is None else score.mean,
        "low": None if score is None else score.low,
        "high": None if score is None else score.high,
        "expected": coverage.expected,
        "measured": coverage.measured,
        "failed": coverage.failed,
        "missing": coverage.missing,
        "coverage": coverage.measured / coverage.expected if coverage.expected else None,
        "model": model or summary.run.get("model"),
        "detail": "" if whole else coverage.denominator,
        "key_metrics": dict(summary.key_metrics),
        "metrics": dict(summary.metrics),
        "groups": summary.groups,
        "not_needed": coverage.not_needed,
        "until": summary.until,
    }


def _ended(paths: JobPaths, job_id: str) -> str:
    """How the job ended, as its supervisor wrote it, and the job's own sentence about it.

    Empty while it has not ended, or where nobody saw its end.
    """
    link = paths.link(job_id)
    found = _json(link.exit)
    if not found.get("state"):
        return ""
    reason = _marker_sentence(link.end) or found.get("reason")
    return f"{found['state']} (exit status {found.get('exit_status')}{f', {reason}' if reason else ''})"


def _marker_sentence(marker: Path) -> str:
    """The sentence in the job script's end marker, its second line; empty where there is none."""
    try:
        return files.read_document(marker).decode(errors="replace").partition("\n")[2].strip()
    except OSError:
        return ""


def _unfinished(progress: Mapping[str, Any], ended: str, *, started: bool) -> dict[str, Any]:
    done, expected = progress.get("done"), progress.get("expected")
    if not isinstance(done, int) or not isinstance(expected, int):
        detail = f"its job ended without results: {ended}" if ended else "nothing recorded yet"
        return {"status": "unfinished" if started else "no results", "detail": detail}
    now = f"its job ended: {ended}" if ended else progress.get("state", "unknown")
    return {
        "status": "unfinished",
        "expected": expected,
        "measured": done,
        "coverage": done / expected if expected else None,
        "detail": f"{done:,} of {counted(expected, 'rollout')} so far; {now}",
    }


def _json(path: Path) -> Mapping[str, Any]:
    """A small file that others replace as a whole; an empty mapping where there is none."""
    try:
        found = json.loads(files.read_document(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _model(model: Mapping[str, Any] | None, generation: Mapping[str, Any]) -> str | None:
    """The name under which the model answered, else the one that was asked for."""
    name = (model or {}).get("name") or generation.get("policy_model_name")
    return str(name) if name else None


def results_cells(
    rows: Sequence[BenchmarkResult], facts: Sequence[str] = (), values: Sequence[Sequence[str]] = ()
) -> tuple[list[str], list[list[str]]]:
    """Headings and cells for a person; ``values`` are those of further columns ``facts``, row by row."""
    cells = [
        [
            row.gym_job_id,
            row.column if row.label is None else row.benchmark,
            row.status,
            "-" if row.score is None else row.shown(row.score, sign="%"),
            "-"
            if row.low is None or row.high is None
            else f"{row.shown(row.low, sign='%')} to {row.shown(row.high, sign='%')}",
            "-" if row.expected is None else f"{row.measured:,}/{row.expected:,}",
            row.model or "-",
            *(value or "-" for value in (values[at] if facts else ())),
        ]
        for at, row in enumerate(rows)
    ]
    return [*_RESULT_COLUMNS, *(fact.upper() for fact in facts)], cells


def results_table(
    rows: Sequence[BenchmarkResult],
    width: int | None = None,
    facts: Sequence[str] = (),
    values: Sequence[Sequence[str]] = (),
) -> str:
    """Results for a person; below the table, further metrics, and why benchmarks are not complete."""
    from nemo_gym.rollouts.scores.group_scores import group_lines

    columns, cells = results_cells(rows, facts, values)
    notes = []
    for row in rows:
        where = f"{row.benchmark} of {row.gym_job_id}"
        notes += [f"{where}: {name} {metric.sentence}" for name, metric in row.metrics.items()]
        notes += [f"{where}: {line}" for line in group_lines(row.groups)]
        notes += [f"{where}: {row.until['sentence']}"] if row.until else []
        notes += [f"{where}: {row.detail}"] if row.detail else []
    return "\n".join([table(columns, cells, width), *([""] if notes else []), *notes])


def to_csv(
    rows: Sequence[BenchmarkResult], facts: Sequence[str] = (), values: Sequence[Sequence[str]] = ()
) -> str:
    """Results as comma-separated values with a header; what is not known is empty."""
    names = [item.name for item in fields(BenchmarkResult) if item.name not in _NOT_IN_CSV]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, *facts], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for at, row in enumerate(rows):
        writer.writerow(row.to_json() | (dict(zip(facts, values[at], strict=True)) if facts else {}))
    return text.getvalue()
