"""The `slurm` executor: each benchmark a job of a cluster, seen from this machine or over ssh."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.errors import GymError, NotOursError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executor_kinds import SLURM
from nemo_gym.orchestration.executors.base import JobRef, Queued, UnrecordedJob, answers
from nemo_gym.orchestration.executors.slurm_identity import Identities
from nemo_gym.orchestration.plan.values import JobPlan, Submission
from nemo_runs.clock import utc_text
from nemo_slurm import commands, scripts
from nemo_slurm.cluster import Cluster, JobLook, Submitted
from nemo_slurm.errors import NotAcceptedError, NotReachableError, SchedulerRefusedError, SlurmError
from nemo_slurm.identity import carries
from nemo_slurm.observing import has_ended
from nemo_slurm.records import SlurmJob
from nemo_slurm.remote_script import missing_paths, remote_script
from nemo_slurm.states import Meaning, SlurmState, foreign


class SlurmExecutor:
    """Queues jobs with ``sbatch`` on the cluster's host. Job ids are Slurm's numbers."""

    name: ClassVar[str] = SLURM
    supports_resumable: ClassVar[bool] = True
    supports_containers: ClassVar[bool] = True

    def __init__(self, cluster: Cluster, *, environ: Mapping[str, str] | None = None) -> None:
        """``environ`` holds the telemetry token, the only value that is handed to ``sbatch``."""
        self._cluster = cluster
        self._environ = os.environ if environ is None else environ
        self._names: dict[str, str] = {}
        self._away = ""
        self._identities = Identities(cluster.host)

    def submit(self, submission: Submission) -> list[Queued]:
        """Queue a job for each benchmark, or for those that share one.

        Beyond ``max_parallel`` each waits for the end of one before it.

        Each job is found again by its token after a lost reply, so that one benchmark never has two. A
        scheduler that did not answer once is asked for no further benchmark.
        """
        plans = submission.queued
        try:
            missing = self._missing_scripts(plans)
        except SlurmError as error:
            return answers(submission, [Queued(plan.benchmark, None, str(error)) for plan in plans])
        self._away = ""
        queued: list[Queued] = []
        ids: list[str] = []
        for plan in plans:
            if self._away:
                queued.append(Queued(plan.benchmark, None, f"the scheduler was not asked: {self._away}"))
                continue
            before = ids[-submission.max_parallel] if len(ids) >= submission.max_parallel else None
            answer = self._queue(plan, before, there=plan.benchmark not in missing)
            queued.append(answer)
            ids += [answer.job_id] if answer.job_id else []
        self._record(plans, queued)
        return answers(submission, queued)

    def observe(self, jobs: Sequence[JobRef]) -> dict[str, JobObservation]:
        """One round trip to the controller, and one to accounting for those that it has forgotten.

        A record that is not the job's own, its number aside, says nothing.
        """
        named = self._identities.of(jobs, self._names)
        try:
            look = self._cluster.observe(list(named.values())) if named else None
        except SlurmError as error:
            return {job.job_id: JobObservation(JobState.UNKNOWN, str(error), silent=True) for job in jobs}
        found = {}
        for job in jobs:
            number = named.get(job)
            if number is None or look is None:
                found[job.job_id] = JobObservation(
                    JobState.UNKNOWN, f"{job.job_id} is not a number of a Slurm job"
                )
            else:
                found[job.job_id] = observation(look[number], silent=look.controller, unknown=look.accounting)
        return found

    def look_for(self, jobs: Sequence[UnrecordedJob]) -> dict[UnrecordedJob, str]:
        """One look at the queue, for all of them by their tokens."""
        rows = [row for row in self._cluster.queue_of("") if not has_ended(row.state)] if jobs else []
        found = {}
        for job in jobs:
            wanted = _token(job.job_dir.parent.name, job.job_dir.name, job.resubmission, 1)
            row = next((row for row in rows if carries(row.comment, wanted, whole=True)), None)
            if row is not None:
                found[job] = row.id
        return found

    def cancel(self, jobs: Sequence[JobRef]) -> None:
        """Ask jobs to end, waiting ones first; never one that does not carry its chain's token.

        Raises `NotOursError` for jobs that are left alone, and `GymError` when the cluster cannot be asked.
        """
        named = list(self._identities.of(jobs, self._names).values())
        if not named:
            return
        try:
            of_others = self._cluster.cancel(named)
        except SlurmError as error:
            raise GymError(f"{', '.join(map(str, named))}: {error}") from error
        if of_others:
            numbers = ", ".join(job.id for job in of_others)
            raise NotOursError(
                f"job {numbers} of the cluster is not proven to be of this run, by its comment, owner, name "
                "and times: it is left alone. A job of the run ends by itself as soon as it starts; to end "
                f"it now, where you know that it is yours: scancel {' '.join(job.id for job in of_others)}",
                [job.id for job in of_others],
            )

    def _queue(self, plan: JobPlan, before: str | None, *, there: bool) -> Queued:
        script = str(JobPaths(plan.job_dir).script)
        if not there:
            return Queued(plan.benchmark, None, f"{script} is not there")
        try:
            self._refuse_second(plan)
            submitted = self._sbatch(plan, script, before)
        except NotReachableError as error:
            self._away = f"for {plan.benchmark} it gave no answer; queue this one when it answers again"
            return Queued(plan.benchmark, None, str(error))
        except (SlurmError, GymError) as error:
            return Queued(plan.benchmark, None, str(error))
        if submitted.job.cluster:
            self._names[submitted.job.id] = submitted.job.cluster
        return Queued(plan.benchmark, submitted.job.id)

    def _sbatch(self, plan: JobPlan, script: str, before: str | None) -> Submitted:
        """Submit once; when it stays open what became of it, ask for the token, then submit again."""
        dependency = scripts.dependency("afterany", [before]) if before else None

        def submit(*, again: bool, dependency: str | None = dependency) -> Submitted:
            return self._cluster.submit(
                script,
                token=token(plan, 1),
                folder=str(plan.job_dir),
                dependency=dependency,
                env=self._handed_on(plan),
                again=again,
            )

        try:
            return submit(again=False)
        except (NotReachableError, NotAcceptedError):
            return submit(again=True)
        except SchedulerRefusedError as error:
            # newer versions refuse to wait for a job that they have forgotten; older ones take it for ended
            if before is None or not commands.is_about_dependency(error.text) or not self._is_over(before):
                raise
            return submit(again=True, dependency=None)

    def _is_over(self, job_id: str) -> bool:
        """Whether the controller answers, and does not hold the job as one that waits or runs."""
        job = SlurmJob(job_id, self._names.get(job_id))
        look = self._cluster.observe([job])
        state = look[job].state
        return look.controller is None and (state is None or has_ended(state))

    def _refuse_second(self, plan: JobPlan) -> None:
        """A benchmark is not queued again beside a job of it of which nobody had heard."""
        if not plan.resubmission:
            return
        rows = self._cluster.queue_of(f"{plan.gym_job_id}/{plan.benchmark}/")
        live = [row.id for row in rows if not has_ended(row.state)]
        if live:
            raise GymError(f"job {', '.join(live)} of it is in the queue already")

    def _handed_on(self, plan: JobPlan) -> dict[str, str]:
        """What ``sbatch`` gets on top of the environment that is there: the telemetry token alone."""
        name = plan.otel.token_env if plan.otel else None
        return {name: self._environ[name]} if name and name in self._environ else {}

    def _missing_scripts(self, plans: Sequence[JobPlan]) -> set[str]:
        """Benchmarks whose script is not on the cluster's side, in one look."""
        scripts = [str(JobPaths(plan.job_dir).script) for plan in plans]
        return {plans[number].benchmark for number in missing_paths(self._cluster.host, scripts, test="-f")}

    def _record(self, plans: Sequence[JobPlan], queued: Sequence[Queued]) -> None:
        """Note what was queued in each benchmark's journal. A submit does not fail for it."""
        lines = []
        for answer in queued:
            event = {"at": utc_text(time.time()), "event": "submitted", "job_id": answer.job_id}
            if answer.job_id is None:
                event = {"at": event["at"], "event": "submit_failed", "error": answer.error}
            elif answer.job_id in self._names:
                event["cluster"] = self._names[answer.job_id]
            lines.append(json.dumps(event, separators=(",", ":")))
        folders = [plan.job_dir for plan in plans]
        script = remote_script(
            __package__,
            "append_events",
            folders=[str(folder) for folder in folders],
            journals=[str(JobPaths(folder).events) for folder in folders],
            lines=lines,
        )
        try:
            self._cluster.host.run(script)
        except SlurmError:
            return


def token(plan: JobPlan, link: int) -> str:
    """The comment by which a job of a chain is found; links are counted from 1."""
    return _token(plan.gym_job_id, plan.benchmark, plan.resubmission, link)


def _token(gym_job_id: str, benchmark: str, resubmission: int, link: int) -> str:
    again = f"again-{resubmission}-" if resubmission else ""
    return f"{gym_job_id}/{benchmark}/{again}{link}"


def observation(seen: JobLook, *, silent: str | None = None, unknown: str | None = None) -> JobObservation:
    """What one look says of a job, in the words that all executors use; pure.

    ``silent`` and ``unknown`` are why the controller and accounting did not answer, for a job that nobody
    knows.
    """
    state = seen.state
    if state is None:
        reason = silent or unknown or "neither the controller nor accounting knows this job (yet)"
        return JobObservation(JobState.UNKNOWN, reason, silent=silent is not None)
    if seen.settled:
        ended, status = _ended(seen, state)
        return JobObservation(
            ended,
            _reason(seen, state, status),
            status,
            seen.started_at,
            seen.ended_at,
            word=state.name,
            proven=seen.proven,
            stranger=foreign(seen.author, seen.owner),
        )
    if has_ended(state):
        return JobObservation(
            JobState.QUEUED, f"{state.name}: {state.reason}; it may be put back into the queue"
        )
    if state.name in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"):
        return JobObservation(JobState.QUEUED, seen.reason)
    if not state.known:
        return JobObservation(JobState.UNKNOWN, f"{state.name}: {state.reason}")
    reason = "" if state.name == "RUNNING" else f"{state.name}: {state.reason}"
    return JobObservation(JobState.RUNNING, reason, started_at=seen.started_at)


def _ended(seen: JobLook, state: SlurmState) -> tuple[JobState, int | None]:
    """The final state, and the exit status as a shell says it, where the job had one of its own."""
    if state.meaning is Meaning.COMPLETE:
        return JobState.SUCCEEDED, seen.exit_status
    if state.meaning is Meaning.CANCELLED:
        return JobState.CANCELLED, None
    status = 128 + seen.signal if seen.signal else seen.exit_status
    return JobState.FAILED, status or None


def _reason(seen: JobLook, state: SlurmState, status: int | None) -> str:
    if state.meaning is Meaning.COMPLETE:
        return ""
    if state.meaning is Meaning.CANCELLED and seen.author is not None:
        return f"cancelled by {foreign(seen.author, seen.owner) or f'user {seen.author}'}"
    if state.name == "FAILED" and status is not None:
        return f"the job script ended with exit status {status}"
    return f"{state.name}: {state.reason}"
