"""A pause whose workload loses its place, and training that is completed before it acts on one."""

import hashlib
import sys

import pytest
from tests.helix_workplace import Workplace, passes, shell, step, token

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_trainer import contract

pytestmark = pytest.mark.services


def pausing(place):
    job = place.job(shell("true", name="training", pause=60))
    passes(place)
    place.executor.machine.begin(token(place, job))
    passes(place)
    place.pause(job)
    passes(place)
    assert place.get(job).status is Status.PAUSING
    return job


def save(place, job, number):
    folder = place.trainer(job) / "checkpoints" / str(number)
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"weights")
    entry = contract.FileEntry("weights", 7, hashlib.sha256(b"weights").hexdigest())
    manifest = contract.Manifest(
        step=number, files=(entry,), attempt=place.get(job).attempt_id, task=token(place, job)
    )
    contract.write_manifest(folder, manifest)


def say(place, job, **fields):
    path = place.trainer(job) / "progress.json"
    contract.write_progress(path, {"task": token(place, job), **fields}, durable=True)


@pytest.mark.parametrize("late", [False, True])
def test_a_restart_while_pausing_ends_in_paused_and_a_resume_goes_on(place, clock, late):
    job = pausing(place)
    save(place, job, 40)
    say(place, job, step=47)
    place.executor.machine.lose(token(place, job), interrupted="the machine was restarted")
    clock.reboot(7200 if late else 5)
    place.controller.stop()
    place.controller = place.new_controller()
    passes(place)
    paused = place.get(job)
    assert (paused.status, paused.reason) == (Status.PAUSED, "paused_by_user")
    message = place.step_of(job).status_details["message"]
    assert "the machine was restarted" in message
    assert "steps 41 to 47 are trained again" in message
    before = token(place, job)
    place.resume(job)
    passes(place)
    assert place.get(job).status is Status.PENDING
    assert token(place, job) != before


def test_without_a_checkpoint_the_pause_is_withdrawn_and_it_starts_again(place):
    job = pausing(place)
    before = token(place, job)
    place.executor.machine.lose(before, interrupted="the machine was restarted")
    passes(place)
    assert place.step_of(job).status is Status.PENDING
    assert place.get(job).status is Status.ACTIVE
    assert token(place, job) != before
    assert "pausing>resuming" in place.history(job)
    assert "pause_requested_at" not in place.step_of(job).status_details
    place.executor.machine.begin(token(place, job))
    passes(place)
    assert place.get(job).status is Status.ACTIVE
    assert place.executor.machine.runs[token(place, job)].want == "run"


def test_training_that_is_completed_is_not_killed_while_it_writes_its_report(place, clock):
    job = pausing(place)
    say(place, job, step=50, final_step=50, phase="completed")
    clock.advance(61)
    passes(place)
    assert place.get(job).status is Status.ACTIVE
    assert not place.executor.machine.runs[token(place, job)].stops
    clock.advance(3600)
    passes(place)
    place.executor.machine.end(token(place, job), 0)
    passes(place)
    assert place.get(job).status is Status.COMPLETED


def test_it_is_completed_when_the_machine_is_restarted_meanwhile(place):
    job = pausing(place)
    say(place, job, step=50, final_step=50, phase="completed")
    place.executor.machine.lose(token(place, job), interrupted="the machine was restarted")
    passes(place)
    assert place.get(job).status is Status.COMPLETED


REPORTS = """
import json, os, pathlib, time
trainer = pathlib.Path(os.environ["NEMO_JOB_TRAINER_PATH"])
while not (trainer.parent / "asked").exists():
    time.sleep(0.02)
said = {"task": os.environ["NEMO_JOB_TASK"], "phase": "completed", "step": 9, "final_step": 9}
(trainer / ".progress").write_text(json.dumps(said))
(trainer / ".progress").rename(trainer / "progress.json")
while not (trainer.parent / "go").exists():
    time.sleep(0.02)
"""


@pytest.mark.e2e
@pytest.mark.slow
def test_a_real_process_that_writes_its_report_for_longer_than_a_pause_may_take_completes(tmp_path):
    place = Workplace(tmp_path / "data").start()
    try:
        job = place.job(step([sys.executable, "-c", REPORTS], name="training", pause=1))
        place.until(job, Status.ACTIVE)
        place.pause(job)
        storage = place.trainer(job).parent
        (storage / "asked").touch()
        place.wait_for(lambda: place.get(job).status is Status.ACTIVE)
        (storage / "go").touch()
        place.until(job, Status.COMPLETED)
        assert "pausing>active" in place.history(job)
    finally:
        place.close()
