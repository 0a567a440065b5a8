"""Telling against the real store and a tracker that fails in every way: each step once all the same."""

import functools
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nemo_helix_server.worlds import ANNA, TRAINING, S, sqlite_world

from nemo_helix_server.controller.metrics_tail import MetricsPiece
from nemo_helix_server.jobs.model import CheckpointRow, MetricPoint
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.trackers.endpoints import TrackerEndpoints
from nemo_helix_server.trackers.errors import TrackerRefusedError, UnreachableError
from nemo_helix_server.trackers.publishing import Publishing
from nemo_helix_server.trackers.sync import TrackerSync
from nemo_helix_server.trackers.worker import TrackerWorker
from nemo_trainer.contract import ContinueRow

pytestmark = pytest.mark.services

SPEC = {"integrations": {"mlflow": {"tracking_uri": "http://tracker.example"}}, "model": "m"}


class Tracker:
    """A tracker that takes a step once, as the publisher's programs see to it, and can fail on demand."""

    def __init__(self):
        self.opened = set()
        self.runs = {}
        self.states = []
        self.fault = None

    def ask(self, **request):
        fault, self.fault = self.fault, None
        if fault == "refused":
            raise TrackerRefusedError("no")
        answer = self._do(request) if fault != "unreachable" else {}
        if fault == "lost tail" and request["op"] == "log":
            # the process is killed before its file was written
            steps = self.runs[request["job"]]
            del steps[len(steps) // 2 :]
        if fault in {"unreachable", "lost answer", "lost tail"}:
            self.opened.clear()
            raise UnreachableError("gone")
        return answer

    def close(self):
        self.opened.clear()

    def abandon(self):
        pass

    def _do(self, request):
        steps = self.runs.setdefault(request["job"], [])
        match request["op"]:
            case "open":
                return {"run_id": f"run-of-{request['job']}", "url": None, "last": max(steps, default=0)}
            case "log":
                assert request["job"] in self.opened
                steps += [step for step, _ in request["rows"] if step > max(steps, default=0)]
            case "tell":
                self.states.append(request["state"])
        return {}


class Training:
    """A job that trains in a store, without a process."""

    def __init__(self, world, name="job-1", spec=SPEC):
        self.world = world
        self.step = 0
        world.create(name, steps=(TRAINING,), spec=spec)
        self.id = world.job(name).id
        world.bring_to(S.ACTIVE, name)

    @property
    def status(self):
        return self.world.job().status

    def train(self, number):
        points = [
            MetricPoint(step=step, epoch=None, name=name, value=float(step))
            for step in range(self.step + 1, self.step + number + 1)
            for name in ("train_loss", "train_lr")
        ]
        self.step += number
        with self.world.store.write() as unit:
            unit.series.add(self.id, "training", points)

    def save(self):
        with self.world.store.write() as unit:
            unit.checkpoints.put(checkpoint(self.id, self.step))

    def start(self):
        self.world.move(StatusEvent.ACCEPTED)
        self.world.move(StatusEvent.STARTED)
        with self.world.store.write() as unit:
            self.step = max((found.step for found in unit.checkpoints.of_job(self.id)), default=0)
            unit.series.truncate(self.id, "training", self.step)

    def do(self, what):
        """One thing that happens to a job, where it can happen now."""
        match what, self.status:
            case ("train", S.ACTIVE):
                self.train(3)
            case ("save", S.ACTIVE) if self.step:
                self.save()
            case ("pause", S.ACTIVE) if self.step:
                self.world.move(StatusEvent.PAUSE_REQUESTED)
                self.save()
                self.world.move(StatusEvent.CHECKPOINT_VERIFIED)
            case ("resume", S.PAUSED):
                self.world.move(StatusEvent.RESUME_REQUESTED)
                self.start()
            case ("fail", S.ACTIVE):
                self.world.move(StatusEvent.FAILED)
            case ("rerun", S.ERROR):
                self.world.service.rerun(ANNA, "default", "job-1")
                self.start()

    def finish(self):
        for what in ("resume", "rerun", "train"):
            self.do(what)
        self.world.move(StatusEvent.FINISHED)


def checkpoint(job_id, step, generation=0):
    values = dict.fromkeys(CheckpointRow.__dataclass_fields__)
    values |= {"id": f"ckpt-{step}", "job_id": job_id, "workspace": "default", "job": "job-1", "step": step}
    values |= {"step_name": "training", "size": 1, "reason": "periodic", "created_at": 1, "present": True}
    return CheckpointRow(**{**values, "metrics": {}, "generation": generation})


@pytest.fixture
def world(tmp_path):
    world = sqlite_world(tmp_path)
    yield world
    world.store.close()


def lane_of(world, tracker, folder):
    return TrackerWorker("mlflow", TrackerSync(world.store, JobStorage(folder)), lambda: tracker)


def run_of(world, job_id):
    with world.store.read() as unit:
        return unit.tracker_runs.find(job_id, "mlflow")


def test_a_job_is_told_about_step_by_step(world, tmp_path):
    tracker, job = Tracker(), Training(world)
    lane = lane_of(world, tracker, tmp_path)
    lane.publish((job.id, "mlflow"))
    assert tracker.runs == {}, "nothing is trained yet"
    job.train(7)
    job.save()
    job.train(4)
    lane.publish((job.id, "mlflow"))
    assert tracker.runs == {job.id: [1, 2, 3, 4, 5, 6, 7]}
    world.move(StatusEvent.FINISHED)
    lane.publish((job.id, "mlflow"))
    assert tracker.runs[job.id] == list(range(1, 12))
    assert tracker.states == ["running", "finished"]
    assert world.job().status_details["mlflow_run"] == {
        "id": f"run-of-{job.id}",
        "step": 11,
        "status": "finished",
    }
    with world.store.read() as unit:
        assert unit.tracker_runs.due() == []


def test_a_failed_job_gets_its_last_steps_when_its_storage_is_gone(world, tmp_path):
    tracker, job = Tracker(), Training(world)
    lane = lane_of(world, tracker, tmp_path)
    job.train(5)
    job.save()
    job.train(2)
    world.move(StatusEvent.FAILED)
    lane.publish((job.id, "mlflow"))
    assert tracker.runs[job.id] == [1, 2, 3, 4, 5]
    with world.store.read() as unit:
        assert unit.tracker_runs.due() == []
    world.clock.advance(14400)
    with world.store.write() as unit:
        unit.jobs.reclaim_storage(job.id)
    with world.store.read() as unit:
        assert unit.tracker_runs.due() == [(job.id, "mlflow")]
    lane.publish((job.id, "mlflow"))
    assert tracker.runs[job.id] == [1, 2, 3, 4, 5, 6, 7]
    assert tracker.states == ["failed"]


def test_rows_are_sent_again_with_the_moment_they_had(world, tmp_path):
    tracker, job = Tracker(), Training(world)
    sync = TrackerSync(world.store, JobStorage(tmp_path))
    job.train(5)
    world.move(StatusEvent.FINISHED)
    asked = []

    class Recording:
        opened = tracker.opened

        def ask(self, **request):
            asked.append(request)
            if len(asked) == 1:
                raise UnreachableError("the answer was lost")
            return tracker.ask(**request)

    tracker.opened.add(job.id)
    with pytest.raises(UnreachableError):
        sync.publish(sync.look(job.id, "mlflow"), Recording())
    world.clock.advance(60)
    sync.publish(sync.look(job.id, "mlflow"), Recording())
    assert asked[0]["op"] == "log"
    assert asked[0] == asked[1]


def went_on(world, job, step, generation):
    """A later start of the training takes over: it goes on from the checkpoint of a step."""
    row = ContinueRow(step, "attempt", "task", 1.0, generation)
    with world.store.write() as unit:
        MetricsPiece(job.id, "training", (row,), 0, generation).write(unit.series)
    job.step = step


def test_steps_that_only_an_outdated_generation_has_saved_are_not_published(world, tmp_path):
    tracker, job = Tracker(), Training(world)
    lane = lane_of(world, tracker, tmp_path)
    went_on(world, job, 0, 1)
    job.train(10)
    with world.store.write() as unit:
        unit.checkpoints.put(checkpoint(job.id, 4, generation=1))
        unit.checkpoints.put(checkpoint(job.id, 10, generation=1))
    went_on(world, job, 4, 2)  # the newest one was damaged
    job.train(3)
    lane.publish((job.id, "mlflow"))
    assert tracker.runs[job.id] == [1, 2, 3, 4]
    with world.store.write() as unit:
        unit.checkpoints.put(checkpoint(job.id, 6, generation=2))
    lane.publish((job.id, "mlflow"))
    assert tracker.runs[job.id] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("sent_before", [False, True])
def test_a_generation_that_takes_over_while_the_one_before_is_published_is_not_published_for_it(
    world, tmp_path, sent_before
):
    tracker, job = Tracker(), Training(world)
    sync = TrackerSync(world.store, JobStorage(tmp_path))
    went_on(world, job, 0, 1)
    job.train(10)
    with world.store.write() as unit:
        unit.checkpoints.put(checkpoint(job.id, 9, generation=1))
    if sent_before:  # the answer to the rows up to step 9 never came
        with world.store.write() as unit:
            unit.tracker_runs.note(unit.tracker_runs.find(job.id, "mlflow"), sending_to=9, sending_at=7)
    snapshot = sync.look(job.id, "mlflow")

    class TakenOver(Tracker):
        """While it is opened, a later start begins at the first step again."""

        def ask(self, **request):
            if request["op"] == "open":
                went_on(world, job, 0, 2)
                job.train(5)
            return super().ask(**request)

    tracker = TakenOver()
    sync.publish(snapshot, tracker)
    assert tracker.runs[job.id] == []
    with world.store.write() as unit:
        unit.checkpoints.put(checkpoint(job.id, 3, generation=2))
    sync.publish(sync.look(job.id, "mlflow"), tracker)
    assert tracker.runs[job.id] == [1, 2, 3]
    assert run_of(world, job.id).published == 3


def test_a_rerun_from_an_earlier_checkpoint_is_published_as_far_as_that_one_until_it_has_saved(
    world, tmp_path
):
    tracker, job = Tracker(), Training(world)
    lane = lane_of(world, tracker, tmp_path)
    went_on(world, job, 0, 1)
    job.train(10)
    with world.store.write() as unit:
        unit.checkpoints.put(checkpoint(job.id, 4, generation=1))
        unit.checkpoints.put(checkpoint(job.id, 9, generation=1))
    world.move(StatusEvent.FAILED)
    world.service.rerun(ANNA, "default", "job-1", checkpoint="ckpt-4")
    world.move(StatusEvent.ACCEPTED)
    world.move(StatusEvent.STARTED)
    lane.publish((job.id, "mlflow"))
    assert tracker.runs[job.id] == [1, 2, 3, 4]
    went_on(world, job, 4, 2)
    job.train(3)
    lane.publish((job.id, "mlflow"))
    assert tracker.runs[job.id] == [1, 2, 3, 4]


def test_a_tracker_that_says_no_is_a_warning_that_goes_when_it_says_yes(world, tmp_path):
    tracker, job = Tracker(), Training(world)
    lane = lane_of(world, tracker, tmp_path)
    job.train(5)
    world.move(StatusEvent.FINISHED)
    tracker.fault = "refused"
    lane.publish((job.id, "mlflow"))
    assert world.job().status is S.COMPLETED
    assert world.job().status_details["mlflow_warning"] == "no"
    lane.publish((job.id, "mlflow"))
    assert "mlflow_warning" not in world.job().status_details
    assert run_of(world, job.id).published == 5


def test_after_a_rerun_a_tracker_that_is_still_down_is_said_again_and_the_warning_goes(world, tmp_path):
    tracker, job = Tracker(), Training(world)
    lane = lane_of(world, tracker, tmp_path)
    job.train(5)
    world.move(StatusEvent.FAILED)
    tracker.fault = "refused"
    lane.publish((job.id, "mlflow"))
    assert world.job().status_details["mlflow_warning"] == "no"
    world.service.rerun(ANNA, "default", "job-1")
    job.start()
    assert "mlflow_warning" not in world.job().status_details
    job.train(5)
    tracker.fault = "refused"
    lane.publish((job.id, "mlflow"))
    assert world.job().status_details["mlflow_warning"] == "no"
    lane.publish((job.id, "mlflow"))
    assert "mlflow_warning" not in world.job().status_details
    assert world.job().status_details["mlflow_run"]["id"] == f"run-of-{job.id}"


def test_without_the_libraries_there_is_a_warning_with_the_command_that_installs_them(world, tmp_path):
    job = Training(world)
    job.train(5)
    world.move(StatusEvent.FINISHED)
    given = Settings(data_dir=tmp_path)
    doors = TrackerEndpoints(given, {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    publishing = Publishing(TrackerSync(world.store, JobStorage(tmp_path)), doors, 60.0)
    snapshot = publishing.sync.look(job.id, "mlflow")
    publishing._worker(snapshot.description.endpoint).publish((job.id, "mlflow"))
    assert "nemo engines install trackers" in world.job().status_details["mlflow_warning"]


class Hanging(Tracker):
    """A tracker that does not answer until it is let go of."""

    def __init__(self):
        super().__init__()
        self.asked, self.abandoned = threading.Event(), threading.Event()

    def ask(self, **request):
        self.asked.set()
        assert self.abandoned.wait(30)
        raise UnreachableError("gone")

    def abandon(self):
        self.abandoned.set()


def test_a_tracker_that_hangs_holds_up_neither_the_others_nor_the_end(world, tmp_path, monkeypatch):
    hangs, works = Hanging(), Tracker()
    behind = {None: works, "http://tracker.example": hangs}
    monkeypatch.setattr(Publishing, "_publisher", lambda _, endpoint: behind[endpoint.address])
    job = Training(world)
    job.train(5)
    world.move(StatusEvent.FINISHED)
    other = Training(world, "job-2", {"integrations": {"mlflow": {"name": "x"}}})
    other.train(5)
    world.move(StatusEvent.FINISHED, "job-2")
    doors = TrackerEndpoints(Settings(data_dir=tmp_path), {})
    publishing = Publishing(TrackerSync(world.store, JobStorage(tmp_path)), doors, 0.05)
    publishing.start()
    assert hangs.asked.wait(30)
    deadline = time.monotonic() + 30
    while run_of(world, other.id).said != "finished":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    publishing.stop()
    assert hangs.abandoned.is_set()
    for lane in publishing._workers.values():
        lane._thread.join(30)
        assert not lane._thread.is_alive()


@functools.cache
def empty_database():
    """A migrated database: migrating takes longer than a whole story."""
    folder = Path(tempfile.mkdtemp(dir=os.environ["HOME"]))
    sqlite_world(folder).store.close()
    return folder / "jobs.db"


HAPPENINGS = ("train", "save", "pause", "resume", "fail", "rerun")
FAULTS = (None, None, "refused", "unreachable", "lost answer", "lost tail")


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.sampled_from(FAULTS), st.booleans()), max_size=25))
def test_whatever_happens_each_step_is_there_once(story):
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(empty_database(), Path(name, "jobs.db"))
        world = sqlite_world(Path(name))
        tracker, job = Tracker(), Training(world)
        job.train(1)
        lane = lane_of(world, tracker, Path(name))
        for what, fault, restarted in story:
            job.do(what)
            tracker.fault = fault
            if restarted:
                tracker.opened.clear()
                lane = lane_of(world, tracker, Path(name))
            lane.publish((job.id, "mlflow"))
        tracker.fault = None
        job.finish()
        lane.publish((job.id, "mlflow"))
        assert tracker.runs[job.id] == list(range(1, job.step + 1))
        assert tracker.states[-1] == "finished"
        world.store.close()
