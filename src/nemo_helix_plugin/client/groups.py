"""The sub-clients: `client.jobs`, `client.profiles`, `client.secrets`, `client.workspaces`,
`client.tokens`.

Each listing of methods is written once; the classes at the end are its synchronous and its asynchronous form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from nemo_helix_plugin.client import watch, watching
from nemo_helix_plugin.client.calls import access, job_parts, jobs
from nemo_helix_plugin.client.handle import JobHandle
from nemo_helix_plugin.client.methods import AsyncGroup, Group, Method
from nemo_helix_plugin.jobs import watch_types


class _Jobs:
    create_job = Method(jobs.create_job)
    list_jobs = Method(jobs.list_jobs)
    get_job = Method(jobs.get_job)
    update_job = Method(jobs.update_job)
    delete_job = Method(jobs.delete_job)
    cancel_job = Method(jobs.cancel_job)
    pause_job = Method(jobs.pause_job)
    resume_job = Method(jobs.resume_job)
    rerun_job = Method(jobs.rerun_job)
    update_job_control = Method(jobs.update_job_control)
    pause_all = Method(jobs.pause_all)
    get_job_status = Method(jobs.get_job_status)
    get_job_bill = Method(jobs.get_job_bill)
    update_job_status_details = Method(jobs.update_job_status_details)
    list_transitions = Method(jobs.list_transitions)
    stream_events = Method(jobs.stream_events)
    get_execution_profiles = Method(jobs.get_execution_profiles)

    list_job_attempts = Method(job_parts.list_job_attempts)
    get_job_attempt = Method(job_parts.get_job_attempt)
    list_job_attempt_steps = Method(job_parts.list_job_attempt_steps)
    list_steps = Method(job_parts.list_steps)
    get_job_step = Method(job_parts.get_job_step)
    update_job_step_status = Method(job_parts.update_job_step_status)
    list_job_step_tasks = Method(job_parts.list_job_step_tasks)
    get_job_step_task = Method(job_parts.get_job_step_task)
    update_job_step_task = Method(job_parts.update_job_step_task)
    list_job_logs = Method(job_parts.list_job_logs)
    create_job_result = Method(job_parts.create_job_result)
    list_job_results = Method(job_parts.list_job_results)
    get_job_result = Method(job_parts.get_job_result)
    download_job_result = Method(job_parts.download_job_result)
    list_job_checkpoints = Method(job_parts.list_job_checkpoints)
    get_job_checkpoint = Method(job_parts.get_job_checkpoint)
    pin_job_checkpoint = Method(job_parts.pin_job_checkpoint)
    unpin_job_checkpoint = Method(job_parts.unpin_job_checkpoint)

    # Short names, as they are called on client.jobs.
    create = Method(jobs.create)
    list = Method(jobs.list_by_fields)
    retrieve = Method(jobs.get_job)
    get = Method(jobs.get_job)
    update = Method(jobs.update_job)
    delete = Method(jobs.delete_job)
    cancel = Method(jobs.cancel_job)
    pause = Method(jobs.pause_job)
    resume = Method(jobs.resume_job)
    rerun = Method(jobs.rerun_job)
    control = Method(jobs.update_job_control)
    get_status = Method(jobs.get_job_status)
    bill = Method(jobs.get_job_bill)
    get_logs = Method(job_parts.list_job_logs)


class _Attempts:
    list = Method(job_parts.list_job_attempts)
    retrieve = Method(job_parts.get_job_attempt)
    get = Method(job_parts.get_job_attempt)


class _Steps:
    list = Method(job_parts.list_steps)
    retrieve = Method(job_parts.get_job_step)
    get = Method(job_parts.get_job_step)
    update_status = Method(job_parts.update_job_step_status)


class _Tasks:
    list = Method(job_parts.list_job_step_tasks)
    retrieve = Method(job_parts.get_job_step_task)
    get = Method(job_parts.get_job_step_task)
    create_or_update = Method(job_parts.update_job_step_task)


class _Results:
    create = Method(job_parts.create_job_result)
    list = Method(job_parts.list_job_results)
    retrieve = Method(job_parts.get_job_result)
    get = Method(job_parts.get_job_result)
    download = Method(job_parts.download_job_result)


class _Checkpoints:
    list = Method(job_parts.list_job_checkpoints)
    get = Method(job_parts.get_job_checkpoint)
    pin = Method(job_parts.pin_job_checkpoint)
    unpin = Method(job_parts.unpin_job_checkpoint)


class _Profiles:
    list = Method(jobs.get_execution_profiles)
    check = Method(jobs.check_execution_profile)


class _Workspaces:
    create = Method(access.create_workspace)
    list = Method(access.list_workspaces)
    get = Method(access.get_workspace)
    delete = Method(access.delete_workspace)


class _Secrets:
    create = Method(access.create_secret)
    list = Method(access.list_secrets)
    get = Method(access.get_secret)
    update = Method(access.update_secret)
    delete = Method(access.delete_secret)


class _Tokens:
    create = Method(access.create_token)
    list = Method(access.list_tokens)
    revoke = Method(access.revoke_token)


class AttemptsClient(_Attempts, Group):
    """Runs of a job."""


class AsyncAttemptsClient(_Attempts, AsyncGroup):
    """Runs of a job."""


class StepsClient(_Steps, Group):
    """Steps of a job."""


class AsyncStepsClient(_Steps, AsyncGroup):
    """Steps of a job."""


class TasksClient(_Tasks, Group):
    """Processes of a step."""


class AsyncTasksClient(_Tasks, AsyncGroup):
    """Processes of a step."""


class ResultsClient(_Results, Group):
    """Artifacts of a job."""


class AsyncResultsClient(_Results, AsyncGroup):
    """Artifacts of a job."""


class CheckpointsClient(_Checkpoints, Group):
    """Checkpoints of a job."""


class AsyncCheckpointsClient(_Checkpoints, AsyncGroup):
    """Checkpoints of a job."""


class ProfilesClient(_Profiles, Group):
    """Execution profiles: where steps can run."""


class AsyncProfilesClient(_Profiles, AsyncGroup):
    """Execution profiles: where steps can run."""


class WorkspacesClient(_Workspaces, Group):
    """Workspaces."""


class AsyncWorkspacesClient(_Workspaces, AsyncGroup):
    """Workspaces."""


class SecretsClient(_Secrets, Group):
    """Secrets of a workspace; values go in and never come out."""


class AsyncSecretsClient(_Secrets, AsyncGroup):
    """Secrets of a workspace; values go in and never come out."""


class TokensClient(_Tokens, Group):
    """Access tokens."""


class AsyncTokensClient(_Tokens, AsyncGroup):
    """Access tokens."""


class JobsClient(_Jobs, Group):
    """Jobs, and the groups of their parts."""

    @property
    def attempts(self) -> AttemptsClient:
        """Runs of a job."""
        return AttemptsClient(self._session)

    @property
    def steps(self) -> StepsClient:
        """Steps of a job."""
        return StepsClient(self._session)

    @property
    def tasks(self) -> TasksClient:
        """Processes of a step."""
        return TasksClient(self._session)

    @property
    def results(self) -> ResultsClient:
        """Artifacts of a job."""
        return ResultsClient(self._session)

    @property
    def checkpoints(self) -> CheckpointsClient:
        """Checkpoints of a job."""
        return CheckpointsClient(self._session)

    def open(self, *, name: str, workspace: str | None = None) -> JobHandle:
        """A job with the connection to it, for notebooks: `JobHandle.wait`, `metrics`, `plot` and actions."""
        call = jobs.get_job(name=name, workspace=workspace)
        return JobHandle(self._session, call.sync(self._session, call.request).data())

    def watch_job(
        self, *, name: str, workspace: str | None = None, **options: Any
    ) -> Iterator[watch_types.JobWatchEvent]:
        """Follow a job to its end; the options are those of `watch.WatchOptions`."""
        return watching.watch(self._session, name, workspace, watch.WatchOptions(**options))


class AsyncJobsClient(_Jobs, AsyncGroup):
    """Jobs, and the groups of their parts."""

    @property
    def attempts(self) -> AsyncAttemptsClient:
        """Runs of a job."""
        return AsyncAttemptsClient(self._session)

    @property
    def steps(self) -> AsyncStepsClient:
        """Steps of a job."""
        return AsyncStepsClient(self._session)

    @property
    def tasks(self) -> AsyncTasksClient:
        """Processes of a step."""
        return AsyncTasksClient(self._session)

    @property
    def results(self) -> AsyncResultsClient:
        """Artifacts of a job."""
        return AsyncResultsClient(self._session)

    @property
    def checkpoints(self) -> AsyncCheckpointsClient:
        """Checkpoints of a job."""
        return AsyncCheckpointsClient(self._session)

    def watch_job(
        self, *, name: str, workspace: str | None = None, **options: Any
    ) -> AsyncIterator[watch_types.JobWatchEvent]:
        """Follow a job to its end; the options are those of `watch.WatchOptions`."""
        return watching.watch_async(self._session, name, workspace, watch.WatchOptions(**options))
