"""The log of a job as its users see it: which tasks' files belong to it, and lines as they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nemo_helix_server.clock import SECOND, wire
from nemo_helix_server.errors import NotFoundError
from nemo_helix_server.jobs.model import Attempt, Job
from nemo_helix_server.logs import Line, Logs, Page, Source
from nemo_helix_server.storage import JobStorage
from nemo_helix_server.store.reader import Reader
from nemo_helix_server.store.store import Store

CURRENT = "current"


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

    store: Store
    storage: JobStorage
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

    def after(self, job_id: str, workspace: str, cursor: str | None, *, tail: int | None = None) -> Page:
        """What a follower has not seen yet, and where it goes on."""
        _, sources = self.sources(workspace, job_id, Selection())
        return self.logs.page(sources, cursor=cursor, limit=None if tail is not None else 1000, tail=tail)

    def sources(self, workspace: str, name: str, selection: Selection) -> tuple[Job, list[Source]]:
        """The job, and the logs of the tasks that were selected, in the order in which they ran."""
        with self.store.read() as reader:
            job = reader.job(workspace, name)
            if job is None:
                raise NotFoundError(f"there is no job '{name}' in the workspace '{workspace}'")
            attempts = _attempts(reader, job, selection.attempt)
            found = [source for attempt in attempts for source in self._of_attempt(reader, job, attempt)]
        return job, [
            source
            for source in found
            if selection.step in {None, source.step} and selection.task in {None, source.task}
        ]

    def _of_attempt(self, reader: Reader, job: Job, attempt: Attempt) -> list[Source]:
        names = {step.id: step.name for step in reader.steps(attempt.id)}
        paths = self.storage.paths(job.workspace, job.id)
        return [
            Source(attempt.id, names[task.step_id], task.name, paths.run(task.name).folder)
            for task in reader.tasks_of_attempt(attempt.id)
            if task.step_id in names
        ]


def _attempts(reader: Reader, job: Job, wanted: str | None) -> Sequence[Attempt]:
    attempts = reader.attempts(job.id, newest_first=False).items
    if wanted is None:
        return attempts
    known = [
        attempt
        for attempt in attempts
        if wanted in {attempt.id, str(attempt.seq)} or (wanted == CURRENT and attempt.id == job.attempt_id)
    ]
    if not known:
        raise NotFoundError(
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
