"""What a user asks of a job that exists: pause, resume, rerun, cancel, control, update, delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.job_words import tags
from nemo_helix_plugin.jobs.requests import JobTagChanges
from nemo_helix_plugin.jobs.types import HelixJobStatus, JobControl, UpdateHelixJobRequest
from nemo_helix_server.errors import InvalidError, StateConflictError, UnknownNameError
from nemo_helix_server.jobs import action_rules, consequences, identifiers, retention, stamps, states
from nemo_helix_server.jobs.action_rules import ActionAllowed, ActionFacts, ActionRefused, JobAction, NoChange
from nemo_helix_server.jobs.consequences import JobStanding
from nemo_helix_server.jobs.model import Caller, CheckpointRow, Job, Step
from nemo_helix_server.jobs.orders import NewAttempt
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.service import responses
from nemo_helix_server.service.lookups import Lookups, checked
from nemo_helix_server.service.responses import Document
from nemo_helix_server.store.job_reader import EVERYWHERE
from nemo_helix_server.store.queries import StepQuery
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.writer import StoreWriter
from nemo_helix_server.trackers import descriptions

_STARTS = frozenset({StatusEvent.RESUME_REQUESTED, StatusEvent.RERUN_REQUESTED})
_OF_THE_PROCESS = frozenset(
    {"exit_code", "exit_status", "pid", "pgid", "restarts", "signal", "port", "progress_pct", "stops_at"}
)
_WHY = {
    JobAction.PAUSE: "asked to pause",
    JobAction.RESUME: "asked to resume",
    JobAction.CANCEL: "asked to cancel",
}

OFFERED = tuple(action for action in JobAction if action is not JobAction.UPDATE)
"""Actions without anything that has to be written down first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOffer:
    """An action, what it would do and what would be lost, or why it is not possible now."""

    action: JobAction
    does: str
    loses: str
    refusal: str | None
    """Why not; `None`: it can be asked for."""


class Acting(Lookups):
    """Actions; each is one unit that decides by `rules` and writes."""

    def pause(self, caller: Caller, workspace: str, name: str, *, maintenance: bool = False) -> Document:
        """Have the current step save a checkpoint and stop."""
        reason = StatusReason.PAUSED_FOR_MAINTENANCE if maintenance else None
        return self._act(caller, workspace, name, JobAction.PAUSE, reason)

    def resume(self, caller: Caller, workspace: str, name: str) -> Document:
        """Start a paused step again; while it is pausing, withdraw the pause.

        A step that cannot be started here as things are stays paused, with its window.
        """
        self._require_startable(workspace, name, JobAction.RESUME)
        return self._act(caller, workspace, name, JobAction.RESUME)

    def cancel(self, caller: Caller, workspace: str, name: str) -> Document:
        """Stop the job for good."""
        return self._act(caller, workspace, name, JobAction.CANCEL)

    def rerun(self, caller: Caller, workspace: str, name: str, *, checkpoint: str | None = None) -> Document:
        """Start a new attempt of a failed job, from its newest verified checkpoint or the one named.

        A job of which a step cannot be started here as things are stays as it is, with its window.
        """
        self._require_startable(workspace, name, JobAction.RERUN, checkpoint)
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            named = _usable_checkpoint(writer, job, checkpoint) if checkpoint else None
            step = writer.steps.current(job.attempt_id)
            pinned = named is not None and named.pinned_at is not None
            self._event(JobAction.RERUN, job, step, pinned=pinned)
            failed = self.find_attempt(writer, job, "current")
            order = NewAttempt(
                id=identifiers.entity_id(identifiers.ATTEMPT),
                step_id=identifiers.entity_id(identifiers.STEP),
                created_by=caller.name,
                spec=failed.spec,
                platform_spec=failed.platform_spec,
                status_details=_carried_over(failed.status_details, step),
                checkpoint=checkpoint,
            )
            why = f"asked to run again from checkpoint {checkpoint}" if checkpoint else "asked to run again"
            writer.jobs.add_attempt(job.id, order, who=caller.name, why=why)
            job = writer.jobs.by_id(job.id) or job
        self.wake()
        return self._shown(job)

    def control(self, caller: Caller, workspace: str, name: str, body: JobControl) -> Document:  # noqa: ARG002
        """Change storage windows, up to the platform's maximum; null keeps what is set."""
        given = body.model_dump()
        windows = {key: given.get(key) for key in ("pause_ttl_seconds", "failed_ttl_seconds")}
        retention.check_control(**windows, limits=self.limits)
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            self._event(JobAction.CONTROL, job, writer.steps.current(job.attempt_id))
            job = writer.jobs.set_control(job.id, **windows) or job
        self.wake()
        return self._shown(job)

    def update(self, caller: Caller, workspace: str, name: str, body: UpdateHelixJobRequest) -> Document:  # noqa: ARG002
        """Change description and tags, always; the definition only while no attempt was made from it."""
        checked(body.model_dump(mode="json"), "the change")
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            if body.spec is not None:
                self._event(JobAction.UPDATE, job, writer.steps.current(job.attempt_id))
            if body.description is not None:
                job = writer.jobs.set_description(job.id, body.description) or job
            if body.tags is not None:
                fields = _with_tags(job, body.tags)
                checked(fields, "the tags")
                job = writer.jobs.set_custom_fields(job.id, fields) or job
        return self._shown(job)

    def delete(self, caller: Caller, workspace: str, name: str) -> None:
        """Have a finished job removed; it is deletion_pending until the controller has done so."""
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            event = self._event(JobAction.DELETE, job, writer.steps.current(job.attempt_id))
            if event is not None:
                writer.statuses.move_job(job.id, event, who=caller.name, why="asked to delete")
        self.wake()

    def offers(self, workspace: str, name: str) -> list[ActionOffer]:
        """What can be asked of a job now, by the table of statuses, each with what it would do."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            step = reader.steps.current(job.attempt_id)
            facts = self._facts(job, step)
            standing = self._standing(reader, job, step)
        found = []
        for action in OFFERED:
            answer = action_rules.allowed(action, facts)
            refusal = answer.sentence if isinstance(answer, ActionRefused) else None
            if isinstance(answer, NoChange):
                refusal = f"job {job.name} is {job.status.value}, so this would change nothing"
            said = consequences.of(action, standing)
            found.append(ActionOffer(action=action, does=said.does, loses=said.loses, refusal=refusal))
        return found

    def rerun_refusals(self, workspace: str, name: str) -> dict[str, str | None]:
        """Why a rerun from each of a job's checkpoints is not possible now; `None`: it is."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            step = reader.steps.current(job.attempt_id)
            found = reader.checkpoints.of_job(job.id)
            return {one.id: self._rerun_refusal(reader, job, step, one) for one in found}

    def _rerun_refusal(
        self, reader: StoreReader, job: Job, step: Step, checkpoint: CheckpointRow
    ) -> str | None:
        try:
            self._event(JobAction.RERUN, job, step, pinned=checkpoint.pinned_at is not None)
            _usable_checkpoint(reader, job, checkpoint.id)
        except StateConflictError as error:
            return error.detail
        return None

    def _standing(self, reader: StoreReader, job: Job, step: Step) -> JobStanding:
        checkpoints = reader.checkpoints.of_job(job.id)
        usable = [one.step for one in checkpoints if one.problem is None and one.present]
        trained_to = job.status_details.get("step")
        rerun = (job.error_details or {}).get("rerun")
        window = retention.window_seconds(
            HelixJobStatus.PAUSED,
            pause_ttl_seconds=job.pause_ttl_seconds,
            failed_ttl_seconds=None,
            limits=self.limits,
        )
        return JobStanding(
            step=step.name,
            step_status=step.status,
            trained_to=trained_to if isinstance(trained_to, int) else None,
            kept_step=max(usable, default=None),
            checkpoints=sum(one.present for one in checkpoints),
            pinned=sum(one.pinned_at is not None for one in checkpoints),
            storage_bytes=job.storage_bytes,
            pause_deadline_seconds=step.pause_deadline_seconds,
            pause_window_seconds=window or 0,
            maximum_window_seconds=self.limits.maximum_pause_ttl_seconds,
            rerun=" ".join(rerun.split()) if isinstance(rerun, str) and rerun.strip() else "runs it again",
        )

    def pause_all(
        self,
        caller: Caller,
        workspace: str,
        *,
        source: str | None = None,
        maintenance: bool = False,
    ) -> Document:
        """Pause what can be paused, and say what cannot; `-` is every workspace.

        Answers ``{pausing: [names…], refused: [{name, workspace, status, detail}…]}``.
        """
        reason = StatusReason.PAUSED_FOR_MAINTENANCE if maintenance else None
        pausing: list[str] = []
        refused: list[Document] = []
        with self.store.write() as writer:
            self.check_workspace(writer, workspace)
            where = None if workspace == EVERYWHERE else workspace
            pausable = states.origins(StatusEvent.PAUSE_REQUESTED)
            query = StepQuery(workspace=where, statuses=pausable, source=source)
            for found in writer.steps.contexts(query).items:
                job = self.find_job(writer, found.workspace, found.step.job_id)
                try:
                    self._move(writer, caller, job, found.step, JobAction.PAUSE, reason)
                    pausing.append(job.name)
                except StateConflictError as error:
                    about = {"name": job.name, "workspace": job.workspace, "status": job.status.value}
                    refused.append({**about, "detail": error.detail})
        self.wake()
        return {"pausing": pausing, "refused": refused}

    def _act(
        self, caller: Caller, workspace: str, name: str, action: JobAction, reason: StatusReason | None = None
    ) -> Document:
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            step = writer.steps.current(job.attempt_id)
            moved = self._move(writer, caller, job, step, action, reason)
        self.wake()
        return self._shown(moved)

    def _require_startable(
        self, workspace: str, name: str, action: JobAction, checkpoint: str | None = None
    ) -> None:
        """Raise `StateConflictError` when what is to be started cannot be. It looks at files, so in no
        unit.
        """
        if self.machine is None:
            return
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            step = reader.steps.current(job.attempt_id)
            context = reader.steps.context(step.id)
            attempt = self.find_attempt(reader, job, "current")
            pinned = (
                checkpoint is not None and _usable_checkpoint(reader, job, checkpoint).pinned_at is not None
            )
            if self._event(action, job, step, pinned=pinned) not in _STARTS or context is None:
                return
        later = tuple(attempt.platform_spec["steps"][step.seq :])
        obstacle = self.machine.obstacle(context, later)
        if obstacle is not None:
            stays = "stays paused" if action is JobAction.RESUME else "cannot be run again here"
            command = f"`nemo jobs {action.value} {job.name} --workspace {job.workspace}`"
            raise StateConflictError(
                f"job {job.name} {stays}: {obstacle}; once that has changed, use {command} again"
            )

    def _shown(self, job: Job) -> Document:
        """A job after it was changed; its series are read when nobody has to wait for that."""
        with self.store.read() as reader:
            return self.shown(reader, job)

    def _move(
        self,
        writer: StoreWriter,
        caller: Caller,
        job: Job,
        step: Step,
        action: JobAction,
        reason: StatusReason | None,
    ) -> Job:
        event = self._event(action, job, step)
        if event is None:
            return job
        moved = writer.statuses.move(
            step.id,
            StatusChange(
                event,
                who=caller.name,
                why=_WHY[action],
                expected=step.status,
                version=step.version,
                reason=reason,
            ),
        )
        if moved is None:
            raise StateConflictError(f"job {job.name} has just changed; look at it and ask again")
        return moved.job

    def _event(self, action: JobAction, job: Job, step: Step, *, pinned: bool = False) -> StatusEvent | None:
        """What an action is; None where it changes no status. Raises `StateConflictError` where it is
        refused.
        """
        answer = action_rules.allowed(action, self._facts(job, step, pinned=pinned))
        if isinstance(answer, ActionRefused):
            raise StateConflictError(answer.sentence)
        return answer.event if isinstance(answer, ActionAllowed) else None

    def _facts(self, job: Job, step: Step, *, pinned: bool = False) -> ActionFacts:
        return ActionFacts(
            job=job.name,
            workspace=job.workspace,
            status=job.status,
            step=step.name,
            step_status=step.status,
            pausable=step.pausable,
            seen_running=step.started_at is not None,
            resumed="resumed_at" in step.status_details,
            reason=job.reason,
            reclaimed=job.storage_reclaimed_at is not None,
            window_ended=retention.expired(
                responses.expiry(job, self.limits),
                stopped_at=job.stopped_at,
                stopped_mark=job.stopped_mark,
                clock=self.clock,
            ),
            rerun_can_help=(job.error_details or {}).get("rerun", "") is not None,
            pinned=pinned,
        )


def _with_tags(job: Job, changes: JobTagChanges) -> dict[str, Any]:
    try:
        return tags.changed(job.custom_fields, changes.add, changes.remove)
    except ValueError as error:
        raise InvalidError(str(error)) from error


def _usable_checkpoint(reader: StoreReader, job: Job, checkpoint: str) -> CheckpointRow:
    found = reader.checkpoints.find(job.id, checkpoint)
    listing = f"`nemo jobs checkpoints list {job.name} --workspace {job.workspace}` shows what there is"
    if found is None:
        raise UnknownNameError(f"job '{job.name}' has no checkpoint '{checkpoint}'; {listing}")
    if found.problem is not None:
        raise StateConflictError(
            f"checkpoint {checkpoint} of job {job.name} is damaged: {found.problem}; {listing}"
        )
    if not found.present and found.pinned_at is None:
        raise StateConflictError(
            f"checkpoint {checkpoint} of job {job.name} is not there any more; {listing}"
        )
    return found


def _carried_over(details: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """What a new attempt's details start from: how far the failed one got, and what it warns of."""
    kept: dict[str, Any] = {
        key: value
        for key, value in details.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and key not in _OF_THE_PROCESS
    }
    runs = (f"{tracker}_run" for tracker in descriptions.TRACKERS)
    for key in ("metrics", "phase", "image_digest_at_save", *runs):
        kept[key] = details.get(key)
    kept["rerun_warning"] = _warning(details) or _warning(step.status_details)
    return stamps.merged({}, kept)


def _warning(details: Mapping[str, Any]) -> str | None:
    """Why a rerun may fail the same way, where the failed attempt said so."""
    if details.get("resumable") is not False:
        return None
    reason = details.get("non_resumable_reason") or "the attempt before ended in an error that may come again"
    return f"{reason}; a rerun uses the same configuration and may fail the same way"
