"""The example of an executor from outside does what the protocol asks: output, pause, end, and lost runs."""

import json
import sys

import pytest
from tests.helix_workplace import Workplace, shell, training
from tests.nemo_helix_server.executors import plain

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server import executor_kinds, settings
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.service.profiles import Profiles

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture
def place(tmp_path, monkeypatch):
    real = executor_kinds.load
    monkeypatch.setattr(executor_kinds, "load", lambda name: plain.KIND if name == "plain" else real(name))
    monkeypatch.setattr(executor_kinds, "added", lambda: ("plain",))
    given = settings.load(None, {"HOME": str(tmp_path)}, {"data_dir": tmp_path / "data"})
    opened = Executors(lambda name: executor_kinds.load(name).open(given), "plain", given.data_dir)
    place = Workplace(given.data_dir, executor=opened, profiles=Profiles(given.jobs))
    yield place.start()
    place.close()


def on_plain(step):
    step["executor"] |= {"provider": "cpu", "profile": "plain"}
    step["environment"].append({"name": "PYTHONPATH", "value": ":".join(sys.path)})
    return step


def test_what_a_run_writes_is_its_log_and_its_end_the_job_s(place):
    job = place.job(on_plain(shell("echo one; echo two >&2; exit 3")))
    failed = place.until(job, Status.ERROR)
    lines = sorted((one["s"], one["m"]) for one in map(json.loads, place.output(job).splitlines()))
    assert lines == [("err", "two"), ("out", "one")]
    assert "exited with status 3" in failed.error_details["message"]
    assert place.controller.problems() == []


def test_a_training_pauses_and_goes_on(place):
    job = place.job(on_plain(training(100_000, 0.01)))
    place.until(job, Status.ACTIVE)
    place.wait_for((place.trainer(job) / "progress.json").exists)
    place.pause(job)
    place.until(job, Status.PAUSED)
    place.resume(job)
    place.until(job, Status.ACTIVE)
    place.cancel(job)
    place.until(job, Status.CANCELLED)


def test_what_ended_with_the_service_is_lost_and_never_started_again(place):
    job = place.job(on_plain(shell("sleep 1000")))
    place.until(job, Status.ACTIVE)
    place.controller.stop()
    place.executor.close()
    again = Executors(lambda name: plain.Plain(place.settings), "plain", place.folder)
    place.executor, before = again, place.step_of(job).task
    place.controller = place.new_controller()
    place.start()
    failed = place.until(job, Status.ERROR)
    assert "ended with the service" in failed.error_details["message"]
    assert place.step_of(job).task == before
