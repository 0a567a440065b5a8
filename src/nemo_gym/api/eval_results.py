"""What evaluations came to, as values for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, RolloutPaths
from nemo_gym.orchestration.records import index
from nemo_gym.orchestration.records.run_outputs import RunOutputs, runs_named
from nemo_gym.orchestration.results import scores
from nemo_gym.reports import to_stderr
from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.reading.located import RolloutFilter, selected
from nemo_gym.rollouts.reading.recorded import RecordedRollout, RolloutReader
from nemo_gym.rollouts.scores.summary import Summary, load_summary
from nemo_gym.text_table import table
from nemo_runs.drawn_tables import html_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from nemo_gym.orchestration.jobs import SubmissionRecord

_COLUMNS = ("RUN", "BENCHMARK", "STATE", "SCORE", "95% INTERVAL", "MEASURED", "MODEL")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EvalResult:
    """One benchmark of one run."""

    run: str
    """The id of its submission; of a run without one the path of its output."""
    benchmark: str
    """The name of the benchmark; rows in memory are called ``questions``."""
    state: str
    """``complete``: all that was expected has a result. ``incomplete``, ``exhausted``, ``drained``,
    ``failed``: some has not, and `detail` says why. ``unfinished``: at work, or never added up. Of a
    submission also ``no results``, ``not fetched`` and ``not queued``."""
    detail: str
    """One sentence about the state."""
    output: Path
    """The file of result rows, one JSON object a rollout."""
    model: str | None
    """The name under which the model answered, else the one that was asked for."""
    summary: Summary | None
    """Everything that was added up; ``None`` while nothing was."""

    @property
    def score(self) -> float | None:
        """Mean reward over the measured rollouts, in [0, 1]; ``None`` where nothing was measured."""
        found = self.summary and self.summary.score
        return found.mean if found else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 95 % interval of the score."""
        found = self.summary and self.summary.score
        return (found.low, found.high) if found else None

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Values of the verifier's further metrics by name."""
        return {name: found.value for name, found in self.summary.metrics.items()} if self.summary else {}

    def rollouts(
        self,
        *,
        wrong: bool = False,
        failed: bool = False,
        truncated: bool = False,
        slow: bool = False,
        task: int | None = None,
        limit: int | None = None,
    ) -> list[RecordedRollout]:
        """The recorded rollouts: prompt, thoughts, answer, grade and reason of each.

        ``wrong``, ``failed`` and ``truncated`` together give what is any of them; none of them gives all.
        ``slow`` are the slowest, ``task`` all repeats of one task, ``limit`` at most so many.
        """
        wanted = RolloutFilter(
            failed=failed, wrong=wrong, truncated=truncated, slow=slow, task=task, limit=limit
        )
        located = _exported(self).located
        return list(RolloutReader(located).read(selected(located, wanted)))

    def to_pandas(self) -> pd.DataFrame:
        """One row a rollout. Raises `nemo_gym.errors.GymError` without the package pandas."""
        return _frame([_exported(self)])

    def to_arrow(self) -> pa.Table:
        """One row a rollout. Raises `nemo_gym.errors.GymError` without the package pyarrow."""
        return _arrow([_exported(self)])

    def __repr__(self) -> str:
        _, benchmark, state, score, interval, measured, model = _cells(self)
        found = f"{score} ({interval}), {measured} measured" if score else "no score"
        asked = f" of {model}" if model else ""
        return f"<EvalResult {benchmark}{asked}: {found}, {state}; {self.output}>"

    def _repr_html_(self) -> str:
        lines = self.summary.lines() if self.summary else [("benchmark", self.benchmark)]
        rows = [*lines, ("state", self.detail or self.state), ("output", str(self.output))]
        return html_table((), rows)


class EvalResults(Sequence[EvalResult]):
    """Results of one or several runs, in order; ``found["gsm8k"]`` has the result of that benchmark."""

    def __init__(self, found: Sequence[EvalResult]) -> None:
        self._found = tuple(found)

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, at: int | str) -> EvalResult: ...
    @overload
    def __getitem__(self, at: slice) -> EvalResults: ...
    def __getitem__(self, at: int | str | slice) -> EvalResult | EvalResults:
        if isinstance(at, slice):
            return EvalResults(self._found[at])
        if isinstance(at, int):
            return self._found[at]
        named = [found for found in self._found if found.benchmark == at]
        if len(named) == 1:
            return named[0]
        there = ", ".join(dict.fromkeys(found.benchmark for found in self._found)) or "none"
        raise KeyError(f"{len(named)} results of the benchmark {at!r}; there are results of {there}")

    def __iter__(self) -> Iterator[EvalResult]:
        return iter(self._found)

    def to_pandas(self) -> pd.DataFrame:
        """One row a rollout of all results. Raises `nemo_gym.errors.GymError` without the package pandas."""
        return _frame([_exported(found) for found in self._found])

    def to_arrow(self) -> pa.Table:
        """One row a rollout of all results. Raises `nemo_gym.errors.GymError` without the package pyarrow."""
        return _arrow([_exported(found) for found in self._found])

    def __repr__(self) -> str:
        return table(_COLUMNS, [_cells(found) for found in self._found])

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, [_cells(found) for found in self._found])


def results(*runs: str | Path) -> EvalResults:
    """What runs came to, as far as files on this machine show; nothing is asked of a cluster.

    Each is a folder or file that `nemo_gym.run` or `gym eval run` wrote, a run directory, a folder with such,
    or the id of a submission, the unique beginning of one, or ``latest``. Without any: every submission of
    this machine.
    Raises `nemo_gym.errors.GymError` for what is not there.
    """
    if not runs:
        records = index.newest(limit=None, labels={}, report=to_stderr)
        return EvalResults([found for record in records for found in _of_submission(record)])
    found: list[EvalResult] = []
    for run in runs:
        for each in runs_named(str(run), report=to_stderr):
            if isinstance(each, RunOutputs):
                found += [
                    result_of(RolloutPaths(paths.output.absolute()), benchmark)
                    for benchmark, paths in each.outputs.items()
                ]
            else:
                found += _of_submission(each)
    return EvalResults(found)


def result_of(paths: RolloutPaths, name: str, *, state: str | None = None, detail: str = "") -> EvalResult:
    """What one output came to; ``name`` is its benchmark where nothing recorded says it.

    ``state`` and ``detail`` are known to who has just ended the run.
    """
    summary = load_summary(paths)
    output = ExportedOutput(name, paths, str(paths.output))
    known = output.manifest.generation.get("benchmark", {}) if paths.manifest.is_file() else {}
    if state is None:
        state = "unfinished"
        if summary is not None:
            state, detail = "complete" if summary.whole else "incomplete", summary.coverage.denominator
    return EvalResult(
        run=output.run,
        benchmark=str(known.get("name") or name),
        state=state,
        detail=detail,
        output=paths.output,
        model=output.model if known else None,
        summary=summary,
    )


def _of_submission(record: SubmissionRecord) -> list[EvalResult]:
    found = []
    for row in scores.results(record, report=to_stderr):
        paths = JobPaths(Path(row.job_dir)).rollouts
        found.append(
            EvalResult(
                run=row.gym_job_id,
                benchmark=row.benchmark,
                state=row.status,
                detail=row.detail,
                output=paths.output,
                model=row.model,
                summary=load_summary(paths) if row.score is not None else None,
            )
        )
    return found


def _exported(found: EvalResult) -> ExportedOutput:
    return ExportedOutput(found.benchmark, RolloutPaths(found.output), found.run)


def _cells(found: EvalResult) -> list[str]:
    interval = found.interval
    coverage = found.summary.coverage if found.summary else None
    return [
        found.run,
        found.benchmark,
        found.state,
        _percent(found.score),
        f"{_percent(interval[0])} to {_percent(interval[1])}" if interval else "",
        f"{coverage.measured:,} of {coverage.expected:,}" if coverage else "",
        found.model or "",
    ]


def _frame(outputs: Sequence[ExportedOutput]) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        raise GymError("to_pandas needs the package pandas: `pip install pandas`.") from None
    from nemo_gym.rollouts.export.rows import COLUMNS, table_rows

    return pd.DataFrame(list(table_rows(outputs)), columns=list(COLUMNS))


def _arrow(outputs: Sequence[ExportedOutput]) -> pa.Table:
    from nemo_gym.rollouts.export.rows import arrow_schema, table_rows

    schema = arrow_schema()
    import pyarrow as pa

    return pa.Table.from_pylist(list(table_rows(outputs)), schema=schema)


def _percent(value: float | None) -> str:
    """A share as it is shown; empty for none."""
    return "" if value is None else f"{value:.1%}"
