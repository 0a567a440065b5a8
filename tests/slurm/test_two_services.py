"""Two services that name one storage root of the real Slurm: each has its own jobs, and only these."""

import json
import subprocess

import pytest
from tests.slurm.test_step_executor import ClusterWorkplace, in_queue, steps_of, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.states import StatusEvent

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]

STEPS = 150


@pytest.fixture
def service(slurm, tmp_path, monkeypatch):
    """Starts services on folders of their own, all with the same storage root."""
    for name, value in slurm.lab.environ.items():
        monkeypatch.setenv(name, value)
    root, started = slurm.folder / "shared", []

    def start(name):
        started.append(ClusterWorkplace(tmp_path / name, root).start())
        return started[-1]

    yield start
    for place in started:
        place.close()
    numbers = [
        json.loads(path.read_text())["job_id"]
        for path in tmp_path.glob("*/jobs/default/*/runs/*/cluster.json")
    ]
    subprocess.run(["scancel", *filter(None, numbers), "1"], check=False, capture_output=True)


def test_jobs_of_the_same_name_in_one_root_are_each_of_their_own_service(service):
    ann, ben = service("ann"), service("ben")
    hers, his = (place.job(training(STEPS, 0.05, "--save-every", "10"), name="same") for place in (ann, ben))
    for place, job in ((ann, hers), (ben, his)):
        place.wait_for(lambda place=place, job=job: place.last_step(job) > 3)
    ben.pause(his)
    ben.until(his, Status.PAUSED)
    ben.cancel(his)
    ben.until(his, Status.CANCELLED)
    with ben.store.write() as unit:
        unit.statuses.move_job(his, StatusEvent.DELETE_REQUESTED, who="ben", why="asked")
    ben.controller.wake()
    ben.wait_for(lambda: not (ben.root / "jobs" / his).exists())
    ann.until(hers, Status.COMPLETED)
    assert len(steps_of(ann, hers)) == STEPS


def test_a_copy_of_a_data_directory_has_no_hand_in_the_jobs_of_the_original(service):
    first = service("original")
    job = first.job(training(STEPS, 0.1, "--save-every", "10"))
    first.wait_for(lambda: first.last_step(job) > 3)
    first.close()
    subprocess.run(["cp", "-a", first.folder, first.folder.with_name("copy")], check=True)
    original, copy = service("original"), service("copy")
    copy.wait_for(lambda: "belongs to another service" in str(copy.step_of(job).status_details))
    copy.cancel(job)
    copy.until(job, Status.CANCELLED)
    assert in_queue(*original.job_ids(job))
    original.until(job, Status.COMPLETED)
    assert len(original.job_ids(job)) == 1
    assert len(steps_of(original, job)) == STEPS
