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
from nemo_helix_server.executors.fake import FakeStepExecutor
from nemo_runs.processes import process_table

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROUNDS = int(os.environ.get("NHX_TEST_KILLS", "50"))
LIVE = 20
ENDED = {Status.COMPLETED, Status.ERROR, Status.CANCELLED}
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


class Campaign:
    """Jobs of every kind, what was asked of them, and what must have become of them in the end."""

    def __init__(self, place, chance):
        self.place = place
        self.chance = chance
        self.kinds = {}
        self.cancelled = set()

    def top_up(self):
        """Have so many jobs that have not ended."""
        live = sum(self.place.get(job).status not in ENDED for job in self.kinds)
        for _ in range(LIVE - live):
            kind = self.chance.choice(sorted(KINDS))
            self.kinds[self.place.job(*KINDS[kind]())] = kind

    def ask(self):
        """Ask something of some job, as users do."""
        live = [job for job in self.kinds if self.place.get(job).status not in ENDED]
        job = self.chance.choice(live)
        what = self.chance.choice(["pause", "resume", "resume", "nothing", "nothing", "cancel"])
        if what == "pause" and KINDS[self.kinds[job]] is train:
            self.place.pause(job)
        elif what == "resume":
            self.place.resume(job)
        elif what == "cancel" and self.place.cancel(job) is not None:
            self.cancelled.add(job)

    def all_ended(self):
        """Whether every job has ended; paused ones are resumed."""
        statuses = {job: self.place.get(job).status for job in self.kinds}
        for job, status in statuses.items():
            if status is Status.PAUSED:
                self.place.resume(job)
        return set(statuses.values()) <= ENDED

    def check(self, job):
        """It has ended as it had to, every start ran once, and every point of its series is there once."""
        kind, step = self.kinds[job], self.place.step_of(job)
        natural = Status.ERROR if kind == "fails" else Status.COMPLETED
        status = self.place.get(job).status
        assert status is natural or (status is Status.CANCELLED and job in self.cancelled), step
        starts = list(self.place.storage.paths("default", job).folder.glob("storage/starts-*"))
        assert all(path.read_text() == "x\n" for path in starts)
        with self.place.store.read() as unit:
            attempt = unit.jobs.by_id(job).attempt_id
            points = unit.series.documents(job).get("train_loss")
            tokens = [task.name for task in unit.tasks.of_attempt(attempt)]
        if kind != "trains" and status is not Status.CANCELLED:
            assert len(starts) == len(self.place.get(job).platform_spec["steps"])
        if points is not None and status is Status.COMPLETED:
            assert [point["step"] for point in points] == list(range(1, 41))
        return tokens


def train():
    return [training(40, 0.02)]


KINDS = {
    "quick": lambda: [shell(f"{COUNT} exit 0")],
    "slow": lambda: [shell(f"{COUNT} sleep 0.5")],
    "fails": lambda: [shell(f"{COUNT} exit 3")],
    "two steps": lambda: [shell(f"{COUNT} exit 0", name="first"), shell(f"{COUNT} sleep 0.2", name="second")],
    "trains": train,
}


def kill_soon(process, chance):
    """Most often once it works, sometimes while it starts."""
    if chance.random() < 0.8:
        assert process.stdout.readline() == b"ready\n"
    time.sleep(chance.uniform(0.0, 0.6))


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_nothing_is_lost_doubled_or_orphaned(tmp_path):
    """Whoever asks writes to the store; whoever acts is killed again and again."""
    seed = int(os.environ.get("NHX_TEST_SEED") or random.SystemRandom().randrange(10**9))
    print(f"NHX_TEST_SEED={seed} NHX_TEST_KILLS={ROUNDS}")
    chance = random.Random(seed)
    place = Workplace(tmp_path / "data", executor=FakeStepExecutor())
    campaign = Campaign(place, chance)
    for _ in range(ROUNDS):
        campaign.top_up()
        process = controller(place.folder)
        try:
            kill_soon(process, chance)
            campaign.ask()
        finally:
            end(process)
    last = controller(place.folder)
    try:
        place.wait_for(
            campaign.all_ended,
            lambda: [place.step_of(job) for job in campaign.kinds if place.get(job).status not in ENDED],
        )
    finally:
        end(last)
    assert len(campaign.kinds) > LIVE
    tokens = {token for job in campaign.kinds for token in campaign.check(job)}
    assert not [token for token in sorted(tokens) if process_table.with_variable("NEMO_JOB_TASK", token)]
    place.close()
