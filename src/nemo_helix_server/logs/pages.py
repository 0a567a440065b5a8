"""The log of a job as its users see it: which tasks' files belong to it, and lines as they are answered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_helix_server.errors import UnknownNameError
from nemo_helix_server.jobs.model import Attempt, Job
from nemo_helix_server.logs.reader import Line, LogPage, Logs, LogSource
from nemo_helix_server.storage.log_parts import RunLog
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_lookup import run_of_task
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import SECOND, wire

CURRENT = "current"
_FOLLOWED_LINES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which part of a job's log; nothing given is all of it."""

    attempt: str | None = None
    """An attempt's id, its number, or ``current``."""
    step: str | None = None
    """A step's name."""
    task: str | None = None
    """A task's name."""


@dataclass(frozen=True, slots=True)
class LogPages:
    """Finds and reads the logs of jobs."""

    store: JobStore
    log_of: Callable[[StepRun], RunLog]
    """The log of a run, by whichever executor has it."""
    logs: Logs

    def page(
        self,
        workspace: str,
        name: str,
        selection: Selection,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        tail: int | None = None,
    ) -> dict[str, Any]:
        """One page of a job's log."""
        job, sources = self.sources(workspace, name, selection)
        page = self.logs.page(sources, limit=limit, cursor=cursor, tail=tail)
        return {
            "data": [shown(line, job.name) for line in page.lines],
            "total": page.total,
            "next_page": page.next_page,
            "prev_page": page.prev_page,
        }

    def follow(self, workspace: str, job_id: str, cursor: str | None, tail: int | None) -> JobLogFollower:
        """Follow a job's log from a cursor, from its last ``tail`` lines, or from its start."""
        return JobLogFollower(self, workspace, job_id, cursor, tail)

    def sources(self, workspace: str, name: str, selection: Selection) -> tuple[Job, list[LogSource]]:
        """The job, and the logs of the tasks that were selected, in the order in which they ran."""
        with self.store.read() as reader:
            job = reader.jobs.find(workspace, name)
            if job is None:
                raise UnknownNameError(f"there is no job '{name}' in the workspace '{workspace}'")
            attempts = _attempts(reader, job, selection.attempt)
            found = [source for attempt in attempts for source in self._of_attempt(reader, job, attempt)]
        return job, [
            source
            for source in found
            if selection.step in {None, source.step} and selection.task in {None, source.task}
        ]

    def _of_attempt(self, reader: StoreReader, job: Job, attempt: Attempt) -> list[LogSource]:
        steps = {step.id: step for step in reader.steps.of_attempt(attempt.id)}
        return [
            LogSource(attempt.id, steps[task.step_id].name, task.name, self.log_of(run))
            for task in reader.tasks.of_attempt(attempt.id)
            if task.step_id in steps
            for run in (run_of_task(job.workspace, steps[task.step_id], task),)
        ]


class JobLogFollower:
    """Reads a job's log as it grows; looking at one that does not grow costs next to nothing."""

    def __init__(
        self, pages: LogPages, workspace: str, job_id: str, cursor: str | None, tail: int | None
    ) -> None:
        self._pages, self._workspace, self._job_id = pages, workspace, job_id
        self._sources: list[LogSource] | None = None
        self._tail = tail
        self._mark: object = None
        self.cursor = cursor
        """Where it is: behind the last line that was read."""

    def check(self) -> None:
        """Raise `InvalidError` when the cursor is not one of this job's."""
        self._read(self._pages.sources(self._workspace, self._job_id, Selection())[1])

    def grew(self) -> bool:
        """Whether there may be new lines; costs a look at the size of each task's log."""
        return self._sources is None or _mark(self._sources) != self._mark

    def new(self, *, again: bool) -> tuple[Line, ...]:
        """Lines since the last call; ``again``: there may be another task by now."""
        if self._sources is None or again:
            self._sources = self._pages.sources(self._workspace, self._job_id, Selection())[1]
        mark = _mark(self._sources)
        page = self._read(self._sources)
        hidden = self._tail == 0
        self._tail, self.cursor = None, page.end
        if page.next_page is None:
            self._mark = mark
        return () if hidden else page.lines

    def _read(self, sources: Sequence[LogSource]) -> LogPage:
        if self._tail is not None and self.cursor is None:
            return self._pages.logs.page(sources, tail=max(self._tail, 1))
        return self._pages.logs.page(sources, cursor=self.cursor, limit=_FOLLOWED_LINES)


def _mark(sources: Sequence[LogSource]) -> tuple[Hashable, ...]:
    """What changes when a log grows."""
    return tuple(source.log.mark() for source in sources)


def _attempts(reader: StoreReader, job: Job, wanted: str | None) -> Sequence[Attempt]:
    attempts = reader.attempts.of_job(job.id, newest_first=False).items
    if wanted is None:
        return attempts
    known = [
        attempt
        for attempt in attempts
        if wanted in {attempt.id, str(attempt.seq)} or (wanted == CURRENT and attempt.id == job.attempt_id)
    ]
    if not known:
        raise UnknownNameError(
            f"the job '{job.name}' has no attempt '{wanted}'; `nemo jobs attempts list` shows them"
        )
    return known


def shown(line: Line, job: str) -> dict[str, Any]:
    """A line as it is answered."""
    return {
        "timestamp": wire(round(line.at * SECOND)),
        "job": job,
        "job_step": line.step,
        "job_task": line.task,
        "message": line.message,
    }
