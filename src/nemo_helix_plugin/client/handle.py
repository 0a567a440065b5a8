"""A job and the connection to it, for notebooks and scripts: what it is, how far it is, and what to do."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, Self

from nemo_helix_plugin.client import watching
from nemo_helix_plugin.client.calls import job_parts, jobs
from nemo_helix_plugin.client.calls.call import Call
from nemo_helix_plugin.client.calls.tuning import CustomizationJob
from nemo_helix_plugin.client.request import Request
from nemo_helix_plugin.client.session import ClientSession
from nemo_helix_plugin.client.watch import WatchOptions
from nemo_helix_plugin.job_words import curves, job_state, trained_models
from nemo_helix_plugin.jobs import types
from nemo_runs.drawn_tables import html_table

Arguments = ParamSpec("Arguments")
ALL_FIELDS = frozenset(types.HelixJobResponse.model_fields)


class JobHandle:
    """A job of a synchronous client. The fields of the job are attributes, as they were when last asked for.

    `refresh`, `wait` and the actions ask the service and return the handle itself.
    Errors are those of the client's methods (`nemo_helix_plugin.client.errors`).
    """

    def __init__(self, session: ClientSession, job: types.HelixJobResponse) -> None:
        self._session = session
        self._job = job

    @property
    def job(self) -> types.HelixJobResponse:
        """The job, as it was when last asked for."""
        return self._job

    @property
    def model(self) -> str | None:
        """``workspace/name`` of the model that the job has registered; `None` until it is completed."""
        return trained_models.trained_model(self._record()) or None

    def __getattr__(self, name: str) -> Any:
        if name in ALL_FIELDS:
            return getattr(self._job, name)
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *ALL_FIELDS})

    def refresh(self) -> Self:
        """Ask the service for the job."""
        return self._asked(jobs.get_job)

    def pause(self) -> Self:
        """Ask for a checkpoint, and for the end of the workload after it."""
        return self._asked(jobs.pause_job)

    def resume(self) -> Self:
        """Go on with a paused job."""
        return self._asked(jobs.resume_job)

    def cancel(self) -> Self:
        """End the job for good."""
        return self._asked(jobs.cancel_job)

    def rerun(self, checkpoint: str | None = None) -> Self:
        """Start a new attempt of a failed job from a checkpoint, by default the newest one."""
        call = jobs.rerun_job(job=self._job.name, workspace=self._job.workspace, checkpoint=checkpoint)
        self._job = call.sync(self._session, call.request).data()
        return self

    def wait(
        self,
        *,
        timeout: float | None = None,
        through_pauses: bool = False,
        poll_interval: float = 3.0,
        bar: bool = True,
    ) -> Self:
        """Wait until the job has ended, or is paused unless ``through_pauses``; see ``status`` then.

        A bar on standard error, in a notebook below the cell, shows progress, unless ``bar`` is false.
        ``poll_interval`` counts seconds. Raises `JobWatchTimeoutError` after ``timeout`` seconds; the job
        goes on.
        """
        options = WatchOptions(
            timeout=timeout,
            through_pauses=through_pauses,
            poll_interval=poll_interval,
            include_logs=False,
            include_progress=True,
        )
        with _progress_bar(self._job.name, shown=bar) as show:
            show(_state(self._record()))
            for event in watching.watch(self._session, self._job.name, self._job.workspace, options):
                if event.kind == "status":
                    show(_state(event.model_dump(mode="json")))
        return self.refresh()

    def logs(self, tail: int = 20) -> str:
        """The last lines of the job's log."""
        query = types.JobLogsQueryParams(tail=tail)
        call = job_parts.list_job_logs(name=self._job.name, query_params=query, workspace=self._job.workspace)
        return "\n".join(line.message for line in call.sync(self._session, call.request).data().data)

    def metrics(self, *patterns: str) -> Any:
        """What was measured, a row for each training step; of patterns like ``*loss``, those that match.

        A `pandas.DataFrame` indexed by ``step`` where pandas is installed, otherwise a `MetricsTable`.
        """
        found = curves.rows(curves.curves_of(self.refresh()._record(), patterns))  # noqa: SLF001 - itself
        if importlib.util.find_spec("pandas") is None:
            return MetricsTable(found)
        import pandas as pd

        columns = ["step", *(name for name in (found[0] if found else ()) if name != "step")]
        return pd.DataFrame(found, columns=columns).set_index("step")

    def plot(self, *patterns: str, width: float = 7.0, height: float = 2.5) -> Any:
        """Draw the metrics by training step, a chart for each quantity; vertical lines are breaks.

        A `matplotlib.figure.Figure` where matplotlib is installed, ``width`` inches wide and for each chart
        ``height`` inches high; otherwise a `TextChart`.
        """
        from nemo_helix_plugin.job_words import charts, text_chart

        found = curves.curves_of(self.refresh()._record(), patterns)  # noqa: SLF001 - itself
        call = jobs.get_job_bill(name=self._job.name, workspace=self._job.workspace)
        breaks = curves.breaks_of(call.sync(self._session, call.request).data().model_dump(mode="json"))
        if importlib.util.find_spec("matplotlib") is not None:
            return charts.figure(self._job.name, found, breaks, width=width, height=height)
        drawn = text_chart.charts(
            {self._job.name: found}, {self._job.name: breaks}, width=100, height=12, color=False
        )
        return TextChart("\n\n".join(drawn) or f"job '{self._job.name}' has no metrics yet.")

    def _asked(self, build: Callable[..., Any]) -> Self:
        call = build(name=self._job.name, workspace=self._job.workspace)
        self._job = call.sync(self._session, call.request).data()
        return self

    def _record(self) -> Mapping[str, Any]:
        return self._job.model_dump(mode="json")

    def __repr__(self) -> str:
        return f"<job '{self._job.name}' in {self._job.workspace}: {_state(self._record())[1]}>"

    def _repr_html_(self) -> str:
        record = self._record()
        done, text = _state(record)
        bar = "" if done is None else f'<progress max="100" value="{100 * done:.0f}"></progress>'
        lines = [("status", text), *_lines(record)]
        return f"{html_table((), lines, caption=f'{self._job.name} in {self._job.workspace}')}{bar}"


class CustomizationJobHandle(JobHandle, CustomizationJob):
    """The answer to a submission, from which the job is waited for, looked at and acted on.

    ``data`` and ``json`` are the answer; attributes and ``job`` are the job as it was when last asked for.
    """

    def __init__(self, session: ClientSession, answer: CustomizationJob) -> None:
        CustomizationJob.__init__(self, answer.http_response, answer.data())
        JobHandle.__init__(self, session, answer.data())


def with_handle(
    build: Callable[Arguments, Call[CustomizationJob, CustomizationJob]],
) -> Callable[Arguments, Call[CustomizationJobHandle, CustomizationJob]]:
    """The same call, whose synchronous answer is a handle."""

    @functools.wraps(build)
    def built(
        *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Call[CustomizationJobHandle, CustomizationJob]:
        call = build(*args, **kwargs)

        def sync(session: ClientSession, request: Request) -> CustomizationJobHandle:
            return CustomizationJobHandle(session, call.sync(session, request))

        return Call(call.request, sync, call.asynchronous)

    return built


class MetricsTable(list[dict[str, "int | float | None"]]):
    """Rows of metrics, a mapping for each training step, where pandas is not installed."""

    def __repr__(self) -> str:
        names = list(self[0]) if self else []
        return f"<{len(self)} training steps: {', '.join(names)}>"

    def _repr_html_(self) -> str:
        names = list(self[0]) if self else []
        return html_table(names, [["" if row[n] is None else f"{row[n]:.6g}" for n in names] for row in self])


class TextChart(str):
    """A chart as text, where matplotlib is not installed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _state(record: Mapping[str, Any]) -> tuple[float | None, str]:
    """How much is done, from 0 to 1, and the state in words."""
    found = job_state.details(record)
    words = [str(record.get("status")), job_state.progress(found), job_state.losses(found)]
    return job_state.fraction(found), ", ".join(word for word in words if word)


def _lines(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, said in (
        ("reason", job_state.reason(record)),
        ("error", job_state.failure(record)),
        ("advice", job_state.advice(record)),
        ("model", trained_models.trained_model(record)),
    ):
        if said:
            yield label, said
    for warning in job_state.warnings(record):
        yield "warning", warning


@contextmanager
def _progress_bar(name: str, *, shown: bool) -> Iterator[Callable[[tuple[float | None, str]], None]]:
    """A bar that is moved by calling what it gives."""
    if not shown:
        yield lambda _state: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (TextColumn("{task.fields[state]}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=None, state=name)

        def show(state: tuple[float | None, str]) -> None:
            done, text = state
            total = None if done is None else 100.0
            progress.update(task, total=total, completed=100 * (done or 0.0), state=f"{name}: {text}")

        yield show
