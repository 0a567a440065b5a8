"""The controller killed with SIGKILL at random moments under live jobs, and started again."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from tests.helix_workplace import Workplace, shell, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.fake import FakeExecutor
from nemo_runs import process_table

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROUNDS = int(os.environ.get("NHX_TEST_KILLS", "8"))
CONTROLLER = """
import sys, time
from pathlib import Path
from tests.helix_workplace import Workplace
Workplace(Path(sys.argv[1]), slots=6).start()
print("ready", flush=True)
time.sleep(600)
"""
COUNT = 'echo x >>"$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/starts-$NEMO_JOB_TASK"; '


def controller(folder):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(folder)],
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
    )


def jobs(place, count):
    """Trivial ones, ones that take a while, trainings, and ones of two steps."""
    kinds = [
        lambda: shell(f"{COUNT} exit 0"),
        lambda: shell(f"{COUNT} sleep 0.5"),
        lambda: training(40, 0.02),
        lambda: shell(f"{COUNT} exit 3"),
    ]
    return [place.job(kinds[number % 4]()) for number in range(count)]


def test_nothing_is_lost_doubled_or_orphaned(tmp_path):
    """Whoever asks writes to the store; whoever acts is killed again and again."""
    place = Workplace(tmp_path / "data", executor=FakeExecutor())
    chance = random.Random(7)
    made = jobs(place, 20)
    for number in range(ROUNDS):
        process = controller(place.folder)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0.0, 0.6))
        if number % 2:
            place.pause(chance.choice(made))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if number % 3 == 2:
            place.resume(chance.choice(made))
    last = controller(place.folder)

    def all_at_rest():
        for job in made:
            if place.get(job).status is Status.PAUSED:
                place.resume(job)
        return all(place.get(job).status in {Status.COMPLETED, Status.ERROR} for job in made)

    place.wait_for(
        all_at_rest, lambda: [place.step_of(job) for job in made if place.get(job).status != "completed"]
    )
    last.kill()
    last.wait()
    last.stdout.close()
    for number, job in enumerate(made):
        wanted = Status.ERROR if number % 4 == 3 else Status.COMPLETED
        assert place.get(job).status is wanted, place.step_of(job)
        storage = place.storage.paths("default", job).storage
        starts = list(storage.glob("starts-*"))
        assert all(path.read_text() == "x\n" for path in starts)
        if number % 4 != 2:
            assert len(starts) == 1
        with place.store.read() as unit:
            points = unit.points(job, "training").get("train_loss")
        assert points is None or [point.step for point in points] == list(range(1, 41))
    for job in made:
        with place.store.read() as unit:
            tokens = [task.name for task in unit.tasks_of_attempt(unit.job_by_id(job).attempt_id)]
        assert not [pid for token in tokens for pid in process_table.with_variable("NEMO_JOB_TASK", token)]
    place.close()
