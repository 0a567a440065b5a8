"""What the parts of the service share: their collaborators, and finding what a request names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from nemo_helix_server.errors import InvalidError, UnknownNameError
from nemo_helix_server.jobs import series
from nemo_helix_server.jobs.model import Attempt, Job, Step
from nemo_helix_server.jobs.ports import StepMachine, Storage, StorageLimits
from nemo_helix_server.service import responses
from nemo_helix_server.service.responses import Document
from nemo_helix_server.store.job_reader import EVERYWHERE
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import Clock

CURRENT = "current"
"""In place of an attempt's id: the one that the job's status is about."""


class Lookups:
    """Base of everything that answers for jobs."""

    def __init__(
        self,
        store: JobStore,
        storage: Storage,
        limits: StorageLimits,
        clock: Clock,
        wake: Callable[[], None],
        machine: StepMachine | None = None,
    ) -> None:
        self.store = store
        self.storage = storage
        self.limits = limits
        self.clock = clock
        self.wake = wake
        self.machine = machine
        """Where the steps run; None: anything can be started."""

    def find_job(self, reader: StoreReader, workspace: str, name: str) -> Job:
        """A job by name or id; raises `UnknownNameError`."""
        job = reader.jobs.find(workspace, name)
        if job is not None:
            return job
        self.check_workspace(reader, workspace)
        where = "any workspace" if workspace == EVERYWHERE else f"workspace '{workspace}'"
        raise UnknownNameError(
            f"there is no job '{name}' in {where}; `nemo jobs list` shows the jobs that exist"
        )

    def check_workspace(self, reader: StoreReader, workspace: str) -> None:
        """Raise `UnknownNameError` for a workspace that does not exist."""
        if workspace != EVERYWHERE and reader.workspaces.find(workspace) is None:
            raise UnknownNameError(f"there is no workspace '{workspace}'; create it, or name another one")

    def find_attempt(self, reader: StoreReader, job: Job, name: str) -> Attempt:
        """An attempt of a job by its id, its sequence number, or `current`; raises `UnknownNameError`."""
        attempt = reader.attempts.by_id(job.attempt_id if name == CURRENT else name)
        if attempt is None and name.isascii() and name.isdecimal():
            found = reader.attempts.of_job(job.id).items
            numbered = next((one for one in found if one.seq == int(name[:9])), None)
            attempt = reader.attempts.by_id(numbered.id) if numbered else None
        if attempt is None or attempt.job_id != job.id:
            raise UnknownNameError(
                f"job '{job.name}' has no attempt '{name}'; `nemo jobs attempts list {job.name}` shows them"
            )
        return attempt

    def find_step(self, reader: StoreReader, job: Job, attempt: str, name: str) -> Step:
        """A step of an attempt by its name; raises `UnknownNameError`."""
        of = self.find_attempt(reader, job, attempt)
        step = reader.steps.named(of.id, name)
        if step is None:
            planned = [one["name"] for one in of.platform_spec["steps"]]
            known = "its turn has not come yet" if name in planned else f"its steps are {', '.join(planned)}"
            raise UnknownNameError(f"job '{job.name}' has no step '{name}' in attempt {of.seq}: {known}")
        return step

    def shown(self, reader: StoreReader, job: Job) -> Document:
        """A job as it is answered, with its series."""
        return responses.job(job, self.limits, self.clock, self.series_of(reader, job))

    def series_of(self, reader: StoreReader, job: Job) -> dict[str, Any] | None:
        """The series of a job's current attempt."""
        reported = job.status_details.get("metrics")
        return series.shown(reader.series.documents(job.id), series.globs(job), reported)


def checked(document: Mapping[str, Any], what: str) -> bytes:
    """A document as canonical JSON; raises `InvalidError` for what no database keeps."""
    try:
        text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError) as error:
        message = f"{what} cannot be kept: {error}; use valid text, numbers of 64 bits and less nesting"
        raise InvalidError(message) from error
    if b"\\u0000" in text:
        raise InvalidError(f"{what} holds a NUL character, which cannot be kept; leave it out")
    return text
