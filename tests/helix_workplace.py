"""A store, an executor and a controller in a folder, for tests: jobs are made and asked for as users do."""

from __future__ import annotations

import sys
import time
from concurrent.futures import Executor, Future

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import loop
from nemo_helix_server.controller.launches import Launches
from nemo_helix_server.controller.supervision.start_threads import StartThreads
from nemo_helix_server.executors.capacity import LeasedCapacity
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.executors.fake import FakeStepExecutor
from nemo_helix_server.executors.subprocesses import ProcessExecutor
from nemo_helix_server.jobs import identifiers
from nemo_helix_server.jobs.orders import NewAttempt, NewJob
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.settings import Settings, StorageSettings, SubprocessSettings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import MovableClock, SystemClock
from nemo_runs.leases import machine_leases

TIMEOUT = 90.0


class AtOnce(Executor):
    """Threads for tests that are none: what is submitted is done when `submit` returns."""

    def submit(self, function, /, *args, **more):
        done = Future()
        try:
            done.set_result(function(*args, **more))
        except Exception as error:  # noqa: BLE001 - the future raises it
            done.set_exception(error)
        return done


RESTING = {status for status in Status if status.is_settled}


def shell(script, **changes):
    """A step that runs a shell command."""
    return step(["/bin/sh", "-c", script], **changes)


def step(command, *, name="main", pause=0, environment=None, resources=None, config=None, **lifecycle):
    """A step of a platform spec, as the service stores it."""
    executor = {"provider": "subprocess", "profile": "default", "command": list(command)}
    executor["resources"] = resources or {}
    variables = [
        item if isinstance(item, dict) else {"name": item[0], "value": item[1]} for item in environment or ()
    ]
    return {
        "name": name,
        "environment": variables,
        "executor": executor,
        "config": config or {},
        "lifecycle": {
            "pause_deadline_seconds": pause,
            "staleness_timeout_seconds": lifecycle.pop("staleness", 0),
            **lifecycle,
        },
    }


def training(steps=2000, step_seconds=0.01, *options, pause=60, **changes):
    """The example trainer as a pausable step."""
    command = [sys.executable, "-m", "nemo_trainer.example", "--steps", str(steps)]
    command += ["--step-seconds", str(step_seconds), *map(str, options)]
    return step(command, name="training", pause=pause, **changes)


def run_named(token, executor="", job="job-1"):
    """A start that belongs to no job of a store."""
    return StepRun("default", job, "attempt-1", "main", token, executor)


class Workplace:
    """One data directory; `controller` may be made again, as after a restart of the service."""

    def __init__(
        self, folder, *, clock=None, executor=None, slots=4, limits=None, profile=None, profiles=None, **jobs
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.clock = clock or SystemClock()
        self.starts_at_once = isinstance(executor, FakeStepExecutor) or isinstance(clock, MovableClock)
        self.store = JobStore(f"sqlite:///{folder / 'jobs.db'}", self.clock)
        self.store.migrate()
        self.storage = JobStorage(folder)
        self.limits = limits or StorageSettings()
        self.profile = SubprocessSettings(
            **{"graceful_shutdown_timeout_seconds": 2.0, **(profile or {})},
        )
        jobs.setdefault("storage", {"minimum_free_bytes": 0})
        self.settings = Settings(data_dir=folder, jobs=jobs)
        self.slots = slots
        self.profiles = profiles
        self.executor = executor or self.real_executor()
        self.controller = self.new_controller()

    def real_executor(self):
        place = self.folder / "leases"
        room = LeasedCapacity(machine_leases.Pool(place, (), self.slots), place)
        return ProcessExecutor(self.storage, self.folder / "executor", room)

    @property
    def executors(self):
        """What the controller asks: several executors, or the only one there is."""
        if isinstance(self.executor, Executors):
            return self.executor
        return Executors(lambda _name: self.executor, "the only one", self.folder)

    def new_controller(self):
        known = self.profiles
        chosen = {"executor_of": known.executor, "has_profile": known.has} if known else {}
        launches = Launches(
            self.folder,
            known.settings if known else lambda _provider, _name: self.profile,
            lambda: "http://127.0.0.1:1",
            clock=self.clock,
            **chosen,
        )
        return loop.build(
            store=self.store,
            executor=self.executors,
            storage=self.storage,
            launches=launches,
            settings=self.settings,
            limits=self.limits,
            # by a clock that tests move, a pass has made its starts when it ends
            start_threads=StartThreads(make=lambda _: AtOnce()) if self.starts_at_once else None,
        )

    def start(self):
        self.controller.start()
        return self

    def close(self):
        self.controller.stop()
        self.executor.close()
        self.store.close()

    def job(self, *steps, name=None, workspace="default", **changes):
        """A new job's id; its directories are left to the controller."""
        spec = {"steps": list(steps), "secrets": []}
        new = NewJob(
            id=identifiers.entity_id(identifiers.JOB),
            attempt_id=identifiers.entity_id(identifiers.ATTEMPT),
            step_id=identifiers.entity_id(identifiers.STEP),
            workspace=workspace,
            name=name or identifiers.job_name("test"),
            source="test",
            spec={},
            platform_spec=spec,
            fileset="files",
            created_by="ann",
            **changes,
        )
        with self.store.write() as unit:
            unit.jobs.create(new, who="ann", why="asked")
        self.controller.wake()
        return new.id

    def get(self, job_id):
        with self.store.read() as unit:
            return unit.jobs.by_id(job_id)

    def step_of(self, job_id):
        with self.store.read() as unit:
            return unit.steps.current(unit.jobs.by_id(job_id).attempt_id)

    def ask(self, job_id, *events, reason=None):
        """What a user asks for: the first of the events that means something now."""
        with self.store.write() as unit:
            current = unit.steps.current(unit.jobs.by_id(job_id).attempt_id)
            for event in events:
                moved = unit.statuses.move(
                    current.id, StatusChange(event, who="ann", why="asked", reason=reason)
                )
                if moved is not None:
                    break
        self.controller.wake()
        return moved

    def pause(self, job_id):
        return self.ask(job_id, StatusEvent.PAUSE_REQUESTED, reason=StatusReason.PAUSED_BY_USER)

    def resume(self, job_id):
        early = self.step_of(job_id).started_at is None
        withdrawn = StatusEvent.PAUSE_WITHDRAWN_EARLY if early else StatusEvent.PAUSE_WITHDRAWN
        return self.ask(job_id, StatusEvent.RESUME_REQUESTED, withdrawn)

    def cancel(self, job_id):
        return self.ask(job_id, StatusEvent.CANCEL_REQUESTED, reason=StatusReason.CANCELLED_BY_USER)

    def rerun(self, job_id, checkpoint=None):
        job = self.get(job_id)
        new = NewAttempt(
            id=identifiers.entity_id(identifiers.ATTEMPT),
            step_id=identifiers.entity_id(identifiers.STEP),
            created_by="ann",
            spec=job.spec,
            platform_spec=job.platform_spec,
            checkpoint=checkpoint,
        )
        with self.store.write() as unit:
            made = unit.jobs.add_attempt(job_id, new, who="ann", why="asked")
        self.controller.wake()
        return made

    def until(self, job_id, *statuses):
        """Wait for a status; an end that is none of them fails at once."""
        return self.wait_for(
            lambda: self._seen(job_id, statuses), lambda: f"{job_id} is {self.step_of(job_id)}"
        )

    def _seen(self, job_id, statuses):
        job = self.get(job_id)
        assert job.status in statuses or job.status not in RESTING - {Status.PAUSED}, self.step_of(job_id)
        return job if job.status in statuses else None

    def wait_for(self, look, report=lambda: "it did not come"):
        """Poll until something is true, and give it back."""
        deadline = time.monotonic() + TIMEOUT
        while not (found := look()):
            assert time.monotonic() < deadline, report()
            time.sleep(0.01)
        return found

    def run_folder(self, job_id):
        job = self.get(job_id)
        return self.storage.paths(job.workspace, job_id).run_folder(self.step_of(job_id).task)

    def trainer(self, job_id, name="training"):
        job = self.get(job_id)
        return self.storage.paths(job.workspace, job_id).trainer(name)

    def output(self, job_id):
        """What the newest start has written."""
        return (self.run_folder(job_id) / "output.jsonl").read_text()

    def history(self, job_id, *, job_only=False):
        """The transitions of a job's steps (or of the job), as texts."""
        from nemo_helix_server.store.queries import TransitionQuery

        with self.store.read() as unit:
            rows = unit.transitions.since(TransitionQuery(job_id=job_id))
        return [f"{row.origin}>{row.to}" for row in rows if (row.step_id is None) is job_only]


def passes(place, count=4):
    """Have the controller decide so many times."""
    for _ in range(count):
        place.controller.run_once()


def token(place, job):
    """The start of a job's current step; `None` = it has none yet."""
    return place.step_of(job).task
