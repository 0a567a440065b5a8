"""Steps of attempts, and the tasks that ran them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, select, update

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs import identifiers, stamps, task_states
from nemo_helix_server.jobs.model import EXECUTOR, Attempt, Json, RowPage, Step, StepContext, StepTask
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.attempts import AttemptWriter
from nemo_helix_server.store.job_reader import JobReader
from nemo_helix_server.store.queries import StepQuery
from nemo_helix_server.store.session import StorePart, StoreSession
from nemo_helix_server.store.transitions import TransitionWriter

_jobs, _attempts = schema.jobs.c, schema.attempts.c
_steps, _tasks = schema.steps.c, schema.tasks.c
_BY_ID = select(schema.steps).where(_steps.id == bindparam("id"))
_OF_ATTEMPT = select(schema.steps).where(_steps.attempt_id == bindparam("attempt_id")).order_by(_steps.seq)
_INSERT, _INSERT_TASK = insert(schema.steps), insert(schema.tasks)
_NOTE = update(schema.steps).where(_steps.id == bindparam("key"))
_NAMED_TASK = select(schema.tasks).where(
    _tasks.step_id == bindparam("step_id"), _tasks.name == bindparam("name")
)
_TASKS = (
    select(schema.tasks)
    .where(_tasks.attempt_id == bindparam("attempt_id"))
    .order_by(_tasks.created_at, _tasks.id)
)
_MOVE_TASK = (
    update(schema.tasks)
    .where(_tasks.id == bindparam("key"))
    .values(status=bindparam("to"), updated_at=bindparam("now"))
)
_TASK_EVENTS = {
    HelixJobStatus.ACTIVE: StatusEvent.STARTED,
    HelixJobStatus.PAUSING: StatusEvent.PAUSE_REQUESTED,
    HelixJobStatus.PAUSED: StatusEvent.CHECKPOINT_VERIFIED,
    HelixJobStatus.CANCELLING: StatusEvent.CANCEL_REQUESTED,
    HelixJobStatus.CANCELLED: StatusEvent.STOPPED,
    HelixJobStatus.COMPLETED: StatusEvent.FINISHED,
    HelixJobStatus.ERROR: StatusEvent.FAILED,
}


class StepReader(StorePart):
    """Questions about steps; None means that there is no such step."""

    def of_attempt(self, attempt_id: str) -> list[Step]:
        """The steps of an attempt that exist already, in order."""
        found = self.connection.execute(_OF_ATTEMPT, {"attempt_id": attempt_id})
        return [rows.step(row) for row in found]

    def by_id(self, step_id: str) -> Step | None:
        """A step by its id."""
        return self._step(_BY_ID, {"id": step_id})

    def named(self, attempt_id: str, name: str) -> Step | None:
        """A step of an attempt by its name."""
        return self._step(
            select(schema.steps).where(_steps.attempt_id == attempt_id, _steps.name == name),
        )

    def current(self, attempt_id: str) -> Step:
        """The newest step of an attempt: the one that actions mean."""
        query = select(schema.steps).where(_steps.attempt_id == attempt_id)
        return rows.step(self.connection.execute(query.order_by(_steps.seq.desc()).limit(1)).one())

    def earlier(self, step: Step) -> Step | None:
        """The step of the same name in the attempt before: what a rerun compares itself with."""
        own = select(_attempts.seq).where(_attempts.id == step.attempt_id).scalar_subquery()
        query = select(schema.steps).join(schema.attempts, _attempts.id == _steps.attempt_id)
        return self._step(
            query.where(_attempts.job_id == step.job_id, _attempts.seq == own - 1, _steps.name == step.name)
        )

    def contexts(self, query: StepQuery) -> RowPage[StepContext]:
        """Steps with what running them takes, oldest first; two statements however many there are."""
        wanted = _restricted(rows.CONTEXT, query)
        found = self.connection.execute(
            wanted.order_by(_steps.created_at, _steps.id).offset(query.offset).limit(query.limit)
        )
        items = tuple(rows.context(row) for row in found)
        if query.limit is None and query.offset == 0:
            return RowPage(items, len(items))
        count = wanted.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
        return RowPage(items, int(self.connection.execute(count).scalar_one()))

    def context(self, step_id: str) -> StepContext | None:
        """The same for one step."""
        found = self.connection.execute(rows.CONTEXT.where(_steps.id == step_id)).first()
        return rows.context(found) if found else None

    def _step(self, query: Select[Any], given: Mapping[str, str] | None = None) -> Step | None:
        found = self.connection.execute(query, given).first()
        return rows.step(found) if found else None


class StepWriter(StepReader):
    """Making steps, and what is known of them beside their status."""

    def insert(self, attempt: Attempt, seq: int, status: HelixJobStatus, step_id: str = "") -> Step:
        """Make the step whose turn has come."""
        spec = attempt.platform_spec["steps"][seq]
        step = Step(
            id=step_id or identifiers.entity_id(identifiers.STEP),
            job_id=attempt.job_id,
            attempt_id=attempt.id,
            seq=seq,
            name=spec["name"],
            status=status,
            reason=None,
            spec=spec,
            status_details={},
            error_details=None,
            task=None,
            control_seq=0,
            version=1,
            created_at=self.now,
            updated_at=self.now,
            status_since=self.now,
            started_at=None,
            stopped_at=None,
            since_mark=self.mark,
            turn_at=self.now,
            turn_mark=self.mark,
        )
        if attempt.seq > 0:
            earlier = self.earlier(step)
            failed = earlier is not None and earlier.status is HelixJobStatus.ERROR
            warning = attempt.status_details.get("rerun_warning")
            details = stamps.inherited(
                earlier.status_details if earlier else None, failed=failed, warning=warning
            )
            step = replace(step, status_details=details)
        self.connection.execute(_INSERT, rows.columns(schema.steps, step))
        return step

    def note(self, step_id: str, details: Mapping[str, Any]) -> Step | None:
        """Merge into a step's status details; neither its status nor its clocks move."""
        step = self.by_id(step_id)
        if step is None:
            return None
        noted = replace(step, status_details=stamps.merged(step.status_details, details), updated_at=self.now)
        if noted.status_details != step.status_details:
            noted_now = {"status_details": noted.status_details, "updated_at": self.now}
            self.connection.execute(_NOTE, {"key": step_id, **noted_now})
        return noted

    def note_image(self, step_id: str, digest: str | None, name: str) -> Step | None:
        """Record what a step runs in, with a warning where that is not what saved its checkpoint.

        `name` says what the digest is of, for people: an image's reference, or an environment.
        """
        step = self.by_id(step_id)
        return self.note(step_id, stamps.image(step.status_details, digest, name)) if step else None


class TaskReader(StorePart):
    """Questions about tasks; None means that there is no such task."""

    def of_step(self, step_id: str) -> list[StepTask]:
        """The tasks of a step, oldest first."""
        return self._tasks(select(schema.tasks).where(_tasks.step_id == step_id))

    def of_attempt(self, attempt_id: str) -> list[StepTask]:
        """The tasks of all steps of an attempt, oldest first."""
        return [rows.task(row) for row in self.connection.execute(_TASKS, {"attempt_id": attempt_id})]

    def named(self, step_id: str, name: str) -> StepTask | None:
        """A task of a step by its name."""
        found = self.connection.execute(_NAMED_TASK, {"step_id": step_id, "name": name}).first()
        return rows.task(found) if found else None

    def details_of(self, job_ids: Sequence[str]) -> dict[str, list[Json]]:
        """What all tasks of some jobs say of themselves, by job."""
        found: dict[str, list[Json]] = {}
        query = select(_tasks.job_id, _tasks.status_details).where(_tasks.job_id.in_(job_ids))
        for job_id, details in self.connection.execute(query):
            found.setdefault(job_id, []).append(details)
        return found

    def _tasks(self, query: Select[Any]) -> list[StepTask]:
        ordered = query.order_by(_tasks.created_at, _tasks.id)
        return [rows.task(row) for row in self.connection.execute(ordered)]


class TaskWriter(TaskReader):
    """Making tasks, and what their processes say."""

    def __init__(
        self,
        session: StoreSession,
        *,
        jobs: JobReader,
        attempts: AttemptWriter,
        steps: StepReader,
        transitions: TransitionWriter,
    ) -> None:
        super().__init__(session)
        self._jobs = jobs
        self._attempts = attempts
        self._steps = steps
        self._transitions = transitions

    def insert(self, step: Step, name: str, executor: str = "") -> StepTask:
        """Make a task of a step, pending; ``executor``: the name of the one that has it."""
        task = StepTask(
            id=identifiers.entity_id(identifiers.TASK),
            job_id=step.job_id,
            attempt_id=step.attempt_id,
            step_id=step.id,
            name=name,
            status=HelixJobStatus.PENDING,
            status_details={EXECUTOR: executor} if executor else {},
            error_details=None,
            error_stack=None,
            created_at=self.now,
            updated_at=self.now,
        )
        self.connection.execute(_INSERT_TASK, rows.columns(schema.tasks, task))
        return task

    def move(
        self,
        step_id: str,
        name: str,
        to: HelixJobStatus,
        *,
        who: str,
        details: Mapping[str, Any] | None = None,
        error: Json | None = None,
        error_stack: str | None = None,
    ) -> StepTask | None:
        """Write a task's status and progress, making the task if it is new; None without such a step.

        A status that the task cannot take any more is left out; the details are kept all the same. Details
        are merged into the task and into the attempt (that is how progress shows on the job).
        """
        step = self._steps.by_id(step_id)
        if step is None:
            return None
        before = self.named(step_id, name) or self.insert(step, name)
        moves = before.status is not to and task_states.task_may_become(before.status, to)
        task = replace(
            before,
            status=to if moves else before.status,
            status_details=stamps.merged(before.status_details, details),
            error_details=error if error is not None else before.error_details,
            error_stack=error_stack if error_stack is not None else before.error_stack,
            updated_at=self.now,
        )
        names = ("status", "status_details", "error_details", "error_stack", "updated_at")
        self.connection.execute(
            update(schema.tasks).where(schema.tasks.c.id == task.id),
            {name: getattr(task, name) for name in names},
        )
        if details:
            self._attempts.note(step.attempt_id, details)
        job = self._jobs.by_id(step.job_id)
        if moves and job is not None:
            why = "the workload said so"
            self._transitions.record(
                self._transitions.change(
                    job, _TASK_EVENTS[to], before.status, to, who=who, why=why, step=step, task=name
                )
            )
        return task

    def follow(self, step: Step, event: StatusEvent, details: Json | None = None) -> None:
        """Let the newest task go where its step went, and merge details into its own."""
        task = self.named(step.id, step.task) if step.task else None
        to = task_states.task_after(task.status, event) if task else None
        if task is not None and details:
            values = {
                "status": to or task.status,
                "status_details": stamps.merged(task.status_details, details),
            }
            own = update(schema.tasks).where(schema.tasks.c.id == task.id)
            self.connection.execute(own, {**values, "updated_at": self.now})
        elif task is not None and to is not None:
            self.connection.execute(_MOVE_TASK, {"key": task.id, "to": to, "now": self.now})


def _restricted(wanted: Select[Any], query: StepQuery) -> Select[Any]:
    if query.workspace is not None:
        wanted = wanted.where(_jobs.workspace == query.workspace)
    if query.job_id is not None:
        wanted = wanted.where(_steps.job_id == query.job_id)
    if query.statuses is not None:
        wanted = wanted.where(_steps.status.in_(sorted(query.statuses)))
    if query.source is not None:
        wanted = wanted.where(_jobs.source == query.source)
    if query.current_only:
        wanted = wanted.where(_jobs.attempt_id == _steps.attempt_id)
    return wanted
