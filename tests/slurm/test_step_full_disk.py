"""Trainings on the real Slurm whose storage root is really full: no allocation waits for room."""

import subprocess

import pytest
from tests.slurm.test_step_executor import ClusterWorkplace, in_queue, training
from tests.small_disk import fill, small_disk

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]


@pytest.fixture
def small(slurm):
    with small_disk(slurm.folder / "small-root", megabytes=24) as folder:
        yield folder


@pytest.fixture
def place(slurm, small, tmp_path, monkeypatch):
    for name, value in slurm.lab.environ.items():
        monkeypatch.setenv(name, value)
    place = ClusterWorkplace(tmp_path / "data", small).start()
    yield place
    place.close()
    numbers = [number for job in (small / "jobs").glob("*") for number in place.job_ids(job.name) if number]
    if numbers:
        subprocess.run(["scancel", *numbers], check=False)


def test_a_training_whose_save_finds_no_room_ends_with_disk_full_and_gives_its_allocation_back(place, small):
    job = place.job(training(100_000, 0.05, "--save-every", "20"))
    place.wait_for(lambda: place.last_step(job) > 3)
    fill(small)
    place.until(job, Status.ERROR)
    assert place.get(job).reason == "disk_full"
    place.wait_for(lambda: not in_queue(*place.job_ids(job)))


def test_a_training_is_cancelled_though_nothing_can_be_written(place, small):
    job = place.job(training(100_000, 0.05, "--save-every", "50000"))
    place.wait_for(lambda: place.last_step(job) > 3)
    fill(small)
    place.cancel(job)
    place.until(job, Status.CANCELLED)
    place.wait_for(lambda: not in_queue(*place.job_ids(job)))
