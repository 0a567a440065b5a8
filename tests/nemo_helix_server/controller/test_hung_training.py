"""A real training that hangs: its stacks are in its log, and it goes on from its checkpoint by itself."""

import signal

import pytest
from tests.helix_workplace import Workplace, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors import shim
from nemo_trainer import contract


def test_the_shim_sends_the_signal_that_trainings_know():
    assert shim.STACKS_SIGNAL == contract.STACKS_SIGNAL == signal.SIGUSR2


@pytest.mark.e2e
@pytest.mark.slow
def test_its_stacks_are_logged_and_it_goes_on_from_its_newest_checkpoint(tmp_path):
    place = Workplace(tmp_path / "data").start()
    try:
        options = ("--save-every", 10, "--fail-at", 25, "--fail-how", "hang")
        job = place.job(training(40, 0.01, *options, staleness=40))
        place.until(job, Status.ACTIVE)
        first = place.step_of(job).task
        place.until(job, Status.COMPLETED)
        step = place.step_of(job)
        assert step.task != first
        assert step.status_details["allocations"]["interrupted"] == 1
        folder = place.storage.paths("default", job).run_folder(first)
        log = b"".join(path.read_bytes() for path in sorted(folder.glob("output*")))
        assert b"fault_injection.py" in log
        assert b"most recent call first" in log
        assert "active>resuming" in place.history(job)
        assert "active>resuming" not in place.history(job, job_only=True)
    finally:
        place.close()
