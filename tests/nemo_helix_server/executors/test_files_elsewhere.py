"""An executor whose files are not in the service's data directory: only its own methods lead to them."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from tests.helix_workplace import Workplace, shell, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.capacity import UnlimitedCapacity
from nemo_helix_server.executors.subprocesses import ProcessExecutor
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.logs.pages import LogPages, Selection
from nemo_helix_server.logs.reader import Logs
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_storage import LocalRunStorage, StepPaths
from nemo_runs.processes import trees

pytestmark = pytest.mark.services


class MountedElsewhere(LocalRunStorage):
    """The service reads below ``jobs``; runs find the same files below another name of that folder."""

    def __init__(self, jobs, mount):
        super().__init__(jobs)
        self.mount = mount
        self.dropped = []

    def paths(self, run):
        return StepPaths.below(self.mount / "jobs" / run.workspace / run.job_id, run)

    def checkpoint_path(self, run, checkpoint):
        found = super().checkpoint_path(run, checkpoint)
        return found and found.replace(str(self.jobs.data_dir), str(self.mount))

    def drop_scratch(self, run):
        self.dropped.append(run.token)
        super().drop_scratch(run)


class Elsewhere(ProcessExecutor):
    """Processes of this machine whose files are on a storage that the service has under another path."""

    def __init__(self, folder):
        jobs = JobStorage(folder / "storage")
        jobs.data_dir.mkdir(parents=True)
        mount = folder / "as-runs-see-it"
        mount.symlink_to(jobs.data_dir)
        super().__init__(jobs, folder / "executor", UnlimitedCapacity())
        self.storage = MountedElsewhere(jobs, mount)

    def files(self, run):
        return self.storage


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path / "data", executor=Elsewhere(tmp_path / "elsewhere")).start()
    yield place
    place.close()


def nothing_of_a_run_is_in_the_data_directory(place):
    return not [path for path in place.folder.glob("jobs/*/*/*/**/*") if path.suffix != ".json"]


def logged(place, job):
    pages = LogPages(place.store, lambda run: place.executors.files(run).log(run), Logs())
    name = place.get(job).name
    return [line["message"] for line in pages.page("default", name, Selection(), limit=1000)["data"]]


def test_a_job_runs_and_its_log_is_shown(place, tmp_path):
    job = place.job(shell('echo "in $PWD"; cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"', config={"a": 1}))
    place.until(job, Status.COMPLETED)
    (where, *config) = logged(place, job)
    assert where.startswith(f"in {tmp_path / 'elsewhere'}/")
    assert config == ["{", ' "a": 1', "}"]
    assert nothing_of_a_run_is_in_the_data_directory(place)
    place.wait_for(lambda: place.executor.storage.dropped == [place.step_of(job).task])


def test_every_path_that_a_run_is_told_is_one_that_it_sees(place, tmp_path):
    job = place.job(shell("env", pause=60))
    place.until(job, Status.COMPLETED)
    said = dict(line.split("=", 1) for line in logged(place, job) if line.startswith("NEMO_JOB_"))
    paths = {name: value for name, value in said.items() if value.startswith("/")}
    assert len(paths) == 7
    assert all(
        value.startswith(f"{tmp_path}/elsewhere/as-runs-see-it/jobs/default/{job}/")
        for value in paths.values()
    )


def test_what_a_failed_run_said_is_its_error(place):
    job = place.job(shell("echo it is broken >&2; exit 3"))
    failed = place.until(job, Status.ERROR)
    assert failed.error_details["detail"] == "it is broken"


def last_step(place, job):
    step = place.step_of(job)
    with place.store.read() as unit:
        task = unit.tasks.named(step.id, step.task or "")
    return task.status_details.get("step", 0) if task else 0


def newest_checkpoint(place, job):
    with place.store.read() as unit:
        return max(unit.checkpoints.of_job(job), key=lambda one: one.step)


def end_trainer(place, job):
    """End the program of the step, as the kernel does that has no memory left."""
    token = place.step_of(job).task
    for pid in trees.marked("NEMO_JOB_TASK", token):
        with contextlib.suppress(OSError):
            if b"nemo_trainer.example" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)


def test_a_training_is_followed_paused_resumed_and_rerun_from_its_checkpoint(place):
    job = place.job(training(10**6, 0.01, "--save-every", "20", "--keep", "50"))
    place.wait_for(lambda: last_step(place, job) > 5)
    place.pause(job)
    place.until(job, Status.PAUSED)
    saved = newest_checkpoint(place, job)
    place.resume(job)
    went_on = f"continuing from step {saved.step}, 1000000 steps in all"
    place.wait_for(lambda: logged(place, job).count(went_on) == 1)
    place.wait_for(lambda: newest_checkpoint(place, job).step > saved.step)
    end_trainer(place, job)
    failed = place.until(job, Status.ERROR)
    newest = newest_checkpoint(place, job).step
    assert newest % 20 == 0, "a resumed training saves after the same steps as one that was not paused"
    assert f"its checkpoint of step {newest}" in failed.error_details["rerun"]
    place.rerun(job, checkpoint=saved.id)
    place.wait_for(
        lambda: logged(place, job).count(went_on) == 2,
        lambda: f"{place.step_of(job)} said {logged(place, job)[-3:]}",
    )
    place.cancel(job)
    place.until(job, Status.CANCELLED)
    assert nothing_of_a_run_is_in_the_data_directory(place)


def test_its_storage_is_measured_deleted_and_discarded_there(place):
    job = place.job(shell("head -c 300000 /dev/urandom >data"))
    place.until(job, Status.COMPLETED)
    place.wait_for(lambda: (place.get(job).storage_bytes or 0) >= 300_000)
    folder = place.executor.storage.jobs.paths("default", job).folder
    with place.store.write() as unit:
        unit.statuses.move_job(job, StatusEvent.DELETE_REQUESTED, who="ann", why="asked")
    place.controller.background.wake()
    place.wait_for(lambda: not folder.exists())
