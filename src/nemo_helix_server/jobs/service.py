"""What can be asked of the Jobs service, whoever asks: the API and commands are thin shells around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nemo_helix_plugin.jobs.types import (
    CreateHelixJobRequest,
    CreateHelixJobResultRequest,
    HelixJobStepStatusUpdate,
    HelixJobTaskUpdate,
    JobControl,
    UpdateHelixJobRequest,
)
from nemo_helix_server.clock import Clock
from nemo_helix_server.jobs import filters
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.jobs.ports import Limits, Storage
from nemo_helix_server.store.store import Store

Document = dict[str, Any]
"""A response as it goes over the wire: the plugin's response types with moments as ISO 8601 text."""


class JobsService:
    """Jobs, as their users see them. Every ``name`` is a name or an id; every call is one or two store units.

    Errors are those of `nemo_helix_server.errors`. `wake` is called after each write that the controller
    should
    act upon; it returns at once.
    """

    def __init__(
        self, store: Store, storage: Storage, limits: Limits, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.store = store
        self.storage = storage
        self.limits = limits
        self.clock = clock
        self.wake = wake

    def create(
        self, caller: Caller, workspace: str, body: CreateHelixJobRequest, *, client_token: str | None = None
    ) -> tuple[Document, bool]:
        """Make a job; the flag says whether it is new.

        The same client token, or the same name with the same body, gives the job that was made before.
        """
        raise NotImplementedError

    def get(self, workspace: str, name: str) -> Document:
        """A job, with its series under ``status_details.metrics``."""
        raise NotImplementedError

    def list_jobs(
        self,
        workspace: str,
        *,
        where: filters.Tree = filters.EVERYTHING,
        sort: str = "-created_at",
        page: int = 1,
        page_size: int = 10,
        echo: Any = None,
    ) -> Document:
        """A page of jobs, without series; `workspace` `-` is all of them. `echo` is the filter as it was given."""
        raise NotImplementedError

    def update(self, caller: Caller, workspace: str, name: str, body: UpdateHelixJobRequest) -> Document:
        """Change the description, always; the definition only while no attempt was made from it."""
        raise NotImplementedError

    def control(self, caller: Caller, workspace: str, name: str, body: JobControl) -> Document:
        """Change storage windows, up to the platform's maximum; null keeps what is set."""
        raise NotImplementedError

    def delete(self, caller: Caller, workspace: str, name: str) -> None:
        """Have a finished job removed; it is deletion_pending until the controller has done so."""
        raise NotImplementedError

    def pause(self, caller: Caller, workspace: str, name: str, *, maintenance: bool = False) -> Document:
        """Have the current step save a checkpoint and stop."""
        raise NotImplementedError

    def resume(self, caller: Caller, workspace: str, name: str) -> Document:
        """Start a paused step again; while it is pausing, withdraw the pause."""
        raise NotImplementedError

    def cancel(self, caller: Caller, workspace: str, name: str) -> Document:
        """Stop the job for good."""
        raise NotImplementedError

    def rerun(self, caller: Caller, workspace: str, name: str, *, checkpoint: str | None = None) -> Document:
        """Start a new attempt of a failed job, from its newest verified checkpoint or the one named."""
        raise NotImplementedError

    def pause_all(
        self, caller: Caller, workspace: str, *, source: str | None = None, maintenance: bool = False
    ) -> Document:
        """Pause what can be paused: ``{paused: [names…], refused: [{job, workspace, detail}…]}``; `-` for all."""
        raise NotImplementedError

    def status(self, workspace: str, name: str) -> Document:
        """The tree of the current attempt: job, steps, tasks."""
        raise NotImplementedError

    def merge_status_details(
        self,
        workspace: str,
        name: str,
        details: Mapping[str, Any],
        *,
        attempt: str = "current",
        expected_step_id: str | None = None,
        expected_step_status: str | None = None,
    ) -> Document:
        """Merge into an attempt's details; 409 when its current step is not the expected one. Gives the job."""
        raise NotImplementedError

    def attempts(
        self,
        workspace: str,
        name: str,
        *,
        statuses: frozenset[str] | None = None,
        sort: str = "-seq",
        page: int = 1,
        page_size: int = 25,
    ) -> Document:
        """A page of the job's attempts, without series."""
        raise NotImplementedError

    def attempt(self, workspace: str, name: str, attempt: str) -> Document:
        """One attempt by its id, or the ``current`` one, with its series."""
        raise NotImplementedError

    def steps(self, workspace: str, name: str, *, attempt: str = "current") -> Document:
        """The steps of an attempt: ``{data: […]}``."""
        raise NotImplementedError

    def list_steps(
        self,
        workspace: str,
        name: str,
        *,
        statuses: frozenset[str] | None = None,
        source: str | None = None,
        page: int = 1,
        page_size: int = 25,
    ) -> Document:
        """A page of steps with context, of current attempts; `-` for all workspaces and for all jobs."""
        raise NotImplementedError

    def step(self, workspace: str, name: str, step: str, *, attempt: str = "current") -> Document:
        """One step by its name: what a workload polls for a pause."""
        raise NotImplementedError

    def update_step_status(
        self,
        caller: Caller,
        workspace: str,
        name: str,
        step: str,
        body: HelixJobStepStatusUpdate,
        *,
        attempt: str = "current",
    ) -> Document:
        """Move a step to a status that the table allows; 409 otherwise, or when it is not the expected step."""
        raise NotImplementedError

    def tasks(self, workspace: str, name: str, step: str, *, attempt: str = "current") -> Document:
        """The tasks of a step: ``{data: […]}``."""
        raise NotImplementedError

    def task(self, workspace: str, name: str, step: str, task: str, *, attempt: str = "current") -> Document:
        """One task by its name."""
        raise NotImplementedError

    def put_task(
        self,
        caller: Caller,
        workspace: str,
        name: str,
        step: str,
        task: str,
        body: HelixJobTaskUpdate,
        *,
        attempt: str = "current",
    ) -> Document:
        """Record a task's progress."""
        raise NotImplementedError

    def results(
        self, workspace: str, name: str, *, attempt: str | None = None, sort: str = "created_at"
    ) -> Document:
        """The results of a job: ``{data: […]}``."""
        raise NotImplementedError

    def result(self, workspace: str, name: str, result: str) -> Document:
        """One result by its name."""
        raise NotImplementedError

    def create_result(
        self, caller: Caller, workspace: str, name: str, result: str, body: CreateHelixJobResultRequest
    ) -> Document:
        """Name an artifact."""
        raise NotImplementedError

    def transitions(
        self, workspace: str, name: str | None = None, *, after: int = 0, limit: int = 1000
    ) -> Document:
        """Transitions in order: ``{data: […], next: seq}``; of one job, a workspace, or all (`-`)."""
        raise NotImplementedError
