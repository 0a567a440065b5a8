"""Evaluations handed over as jobs, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_gym.api.asking import overrides_of
from nemo_gym.api.errors_in_python import in_words_of_python
from nemo_gym.api.eval_results import EvalResults, results
from nemo_gym.api.waiting import EvalProgress, progress_of, wait_for
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.resolve import Narrowing, resolve
from nemo_gym.orchestration.submit import flow
from nemo_gym.orchestration.submit.context import submit_context
from nemo_gym.reports import to_stderr
from nemo_gym.text_table import table
from nemo_runs.drawn_tables import html_table

_COLUMNS = ("BENCHMARK", "JOB", "")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EvalSubmission:
    """Jobs that were queued; they live on without this program."""

    gym_job_id: str
    """The id that `nemo_gym.results` and every command of `gym job` take."""
    run_dir: Path
    """The folder with everything, on the machine of the jobs."""
    jobs: Mapping[str, str]
    """The id of the job of each benchmark that was queued."""
    failed: Mapping[str, str]
    """Why each of the others could not be queued."""

    def results(self) -> EvalResults:
        """What there is so far: see `nemo_gym.results`."""
        return results(self.gym_job_id)

    def progress(self) -> EvalProgress:
        """How far its benchmarks are, by one look at their machine."""
        with in_words_of_python():
            return progress_of(self.gym_job_id)

    def wait(
        self, timeout: float | None = None, progress: Callable[[EvalProgress], object] | None = None
    ) -> EvalProgress:
        """Return once every benchmark has ended, however it has; nothing is raised for one that has failed.

        `timeout`: seconds, after which `TimeoutError` is raised; `None`: without end. `progress` is called
        with what each look finds; the pauses between them grow from a second to a minute, and are short again
        after a change. The jobs do not depend on it: after `TimeoutError` or `KeyboardInterrupt` they go on.
        """
        with in_words_of_python():
            return wait_for(self.gym_job_id, timeout, progress)

    def _rows(self) -> list[list[str]]:
        queued = [[name, job, "queued"] for name, job in self.jobs.items()]
        return [*queued, *([name, "", f"failed: {why}"] for name, why in self.failed.items())]

    def __repr__(self) -> str:
        return f"<EvalSubmission {self.gym_job_id}>\n{table(_COLUMNS, self._rows())}"

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, self._rows(), self.gym_job_id)


def submit(
    config: str | Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
    limit: int | None = None,
    walltime: str | None = None,
    labels: Mapping[str, str] | None = None,
    again: bool = False,
) -> EvalSubmission:
    """Turn a submit file into jobs, as `gym eval submit` does, and return once they are queued.

    config: the submit file.
    overrides: values by dotted key in place of those of the file, added where they are not there.
    only: names of the benchmarks, and of the models of a campaign, to submit; empty: all.
    limit: at most so many tasks of each benchmark.
    walltime: the limit of each job: ``MM``, ``HH:MM:SS``, ``D-HH``.
    labels: what the submission is marked with.
    again: submit even when a run with the same config is live.

    Raises `nemo_gym.errors.GymError` with one sentence for what is wrong, before anything is queued.
    """
    changes = overrides_of(overrides or {}, "overrides")
    narrowing = Narrowing(only=only, limit=limit, walltime=walltime)
    with in_words_of_python():
        parts = resolve(Path(config).expanduser(), changes, narrowing, cwd=Path.cwd()).parts
        if len(parts) > 1:
            raise ConfigError(
                f"{config}: it names several clusters, each a submission of its own; give those of one with "
                "`only`, or use `gym eval submit`."
            )
        (resolved,) = parts
        request = flow.SubmitRequest(resolved=resolved, labels=dict(labels or {}), again=again)
        record = flow.submit(request, submit_context(resolved, report=to_stderr))
    return EvalSubmission(
        gym_job_id=record.gym_job_id,
        run_dir=Path(record.run_dir),
        jobs={entry.benchmark: entry.job_id for entry in record.benchmarks if entry.job_id is not None},
        failed={entry.benchmark: entry.error or "the executor gave no reason" for entry in record.failed},
    )
