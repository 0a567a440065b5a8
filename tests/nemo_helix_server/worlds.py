"""A store and a service that tests move by hand: no process, no controller, a clock that stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_helix_plugin.jobs.types import CreateHelixJobRequest, HelixJobStatus
from nemo_helix_server.jobs.model import Caller, Job, Moved, Step
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.service.jobs import JobsService
from nemo_helix_server.settings import StorageSettings
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock

ANNA = Caller(name="anna")
S = HelixJobStatus
CONTROLLER = {"who": "controller", "why": "a test said so"}

# How a pausable step gets into each status from created.
PATHS: dict[HelixJobStatus, tuple[StatusEvent, ...]] = {
    S.CREATED: (),
    S.QUEUED: (StatusEvent.DEFERRED,),
    S.PENDING: (StatusEvent.ACCEPTED,),
    S.ACTIVE: (StatusEvent.ACCEPTED, StatusEvent.STARTED),
    S.PAUSING: (StatusEvent.ACCEPTED, StatusEvent.STARTED, StatusEvent.PAUSE_REQUESTED),
    S.PAUSED: (
        StatusEvent.ACCEPTED,
        StatusEvent.STARTED,
        StatusEvent.PAUSE_REQUESTED,
        StatusEvent.CHECKPOINT_VERIFIED,
    ),
    S.RESUMING: (
        StatusEvent.ACCEPTED,
        StatusEvent.STARTED,
        StatusEvent.PAUSE_REQUESTED,
        StatusEvent.CHECKPOINT_VERIFIED,
        StatusEvent.RESUME_REQUESTED,
    ),
    S.CANCELLING: (StatusEvent.ACCEPTED, StatusEvent.STARTED, StatusEvent.CANCEL_REQUESTED),
    S.CANCELLED: (StatusEvent.CANCEL_REQUESTED,),
    S.COMPLETED: (StatusEvent.ACCEPTED, StatusEvent.STARTED, StatusEvent.FINISHED),
    S.ERROR: (StatusEvent.ACCEPTED, StatusEvent.STARTED, StatusEvent.FAILED),
}


class Directories:
    """Job directories that exist as soon as they are asked for, or cannot be made."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []
        self.broken = False

    def prepare(self, workspace: str, job_id: str) -> None:
        if self.broken:
            raise OSError("no space left on device")
        self.made.append((workspace, job_id))

    def undo_prepare(self, workspace: str, job_id: str) -> None:
        if (workspace, job_id) in self.made:
            self.made.remove((workspace, job_id))


def step(name: str = "training", *, pause: int = 0, **more: Any) -> dict[str, Any]:
    """A step of a platform_spec."""
    return {
        "name": name,
        "executor": {"provider": "subprocess", "command": ["true"]},
        "lifecycle": {"pause_deadline_seconds": pause},
        **more,
    }


DOWNLOAD, TRAINING, UPLOAD = step("download"), step("training", pause=1800), step("upload")


def request(
    name: str | None = "job-1", steps: tuple[Any, ...] = (TRAINING,), **more: Any
) -> CreateHelixJobRequest:
    """What a job is made from."""
    body = {"name": name, "source": "tests", "spec": {"epochs": 3}, "platform_spec": {"steps": list(steps)}}
    return CreateHelixJobRequest.model_validate({**body, **more})


@dataclass
class World:
    """Everything a test of the service needs."""

    store: JobStore
    clock: MovableClock
    limits: StorageSettings = field(default_factory=StorageSettings)
    directories: Directories = field(default_factory=Directories)
    wakes: int = 0

    def __post_init__(self) -> None:
        self.service = JobsService(self.store, self.directories, self.limits, self.clock, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def create(
        self, name: str = "job-1", steps: tuple[Any, ...] = (TRAINING,), **more: Any
    ) -> dict[str, Any]:
        """Make a job."""
        document, new = self.service.create(
            ANNA, more.pop("workspace", "default"), request(name, steps, **more)
        )
        assert new
        return document

    def job(self, name: str = "job-1") -> Job:
        """A job's row."""
        with self.store.read() as reader:
            job = reader.jobs.find("default", name)
        assert job is not None
        return job

    def step(self, name: str = "job-1") -> Step:
        """The newest step of a job."""
        with self.store.read() as reader:
            job = reader.jobs.find("default", name)
            assert job is not None
            return reader.steps.current(job.attempt_id)

    def move(self, event: StatusEvent, name: str = "job-1", **more: Any) -> Moved:
        """Let an event happen to the newest step of a job."""
        if event is StatusEvent.ACCEPTED:
            more.setdefault("task", f"task-{self.clock.now():x}-{self.step(name).version}")
        with self.store.write() as writer:
            job = writer.jobs.find("default", name)
            assert job is not None
            moved = writer.statuses.move(
                writer.steps.current(job.attempt_id).id, StatusChange(event, **{**CONTROLLER, **more})
            )
        assert moved is not None, f"{event} is not possible in {self.step(name).status}"
        return moved

    def bring_to(self, status: HelixJobStatus, name: str = "job-1") -> None:
        """Lead the newest, created step of a job to a status."""
        for event in PATHS[status]:
            self.move(event, name)


def sqlite_world(folder: Path, limits: StorageSettings | None = None) -> World:
    """A world on a fresh SQLite file."""
    clock = MovableClock()
    store = JobStore(f"sqlite:///{folder / 'jobs.db'}", clock)
    store.migrate()
    return World(store, clock, limits or StorageSettings())
