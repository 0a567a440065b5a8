"""Real trackers and a real service: one run a job whatever happens, each step once, the state true."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.engines import engine_environ
from tests.nemo_helix_server.commands.programs import JOBS, Program, cancel_everything, training, until
from tests.nemo_helix_server.trackers.tracked import Mlflow, tags, wandb_offline

from nemo_helix_server.trackers.errors import TrackerRefusedError, UnreachableError
from nemo_helix_server.trackers.publisher import PublisherProcess
from nemo_runs.processes import trees

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
STEPS = 60


@pytest.fixture
def service(tmp_path, tracker_environ):
    """Starts services on one data directory, publishing as the tests' environment says."""
    started = []

    def start(**environ):
        started.append(Program(tmp_path / "data", environ={**tracker_environ, **environ}))
        return started[-1]

    yield start
    for program in started:
        if program.process.poll() is None:
            cancel_everything(program)
            program.end()
        program.process.stdout.close()


def tracked(name, integrations, *options, **changes):
    job = training(name, "--steps", STEPS, "--save-every", 10, *options, **changes)
    return {**job, "spec": {"integrations": integrations, "output": {"name": f"model-of-{name}"}}}


class Followed:
    """A job and where it is asked about."""

    def __init__(self, program, name):
        self.program, self.name = program, name

    def get(self):
        with self.program.client() as http:
            answer = http.get(f"{JOBS}/{self.name}")
            assert answer.status_code == 200, answer.text
            return answer.json()

    def post(self, action):
        with self.program.client() as http:
            answer = http.post(f"{JOBS}/{self.name}/{action}")
        assert answer.status_code < 300, answer.text

    def details(self):
        return self.get()["status_details"]

    def until(self, status):
        def there():
            job = self.get()
            assert job["status"] == status or job["status"] not in {"error", "completed", "cancelled"}, job
            return job["status"] == status

        until(there, f"{self.name} is {status}")

    def until_step(self, number):
        until(lambda: (self.details().get("step") or 0) >= number, f"step {number}")

    def until_told(self, status, trackers=("mlflow", "wandb")):
        def told():
            details = self.details()
            return all((details.get(f"{name}_run") or {}).get("status") == status for name in trackers)

        until(told, f"the trackers say {status}: {self.details()}")


def submit(program, job):
    with program.client() as http:
        answer = http.post(JOBS, json=job)
    assert answer.status_code < 300, answer.text
    return Followed(program, job["name"])


def test_one_run_through_a_pause_a_killed_service_a_killed_training_and_a_rerun(
    service, gate, mlflow_address, trackers_python
):
    program = service()
    server = Mlflow(mlflow_address)
    both = {"mlflow": {"tracking_uri": gate.address, "tags": {"team": "blue"}}, "wandb": {"notes": "mine"}}
    dies = ("--fail-at", 45, "--fail-how", "kill")
    job = submit(program, tracked("through", both, *dies, step_seconds="0.1"))
    job.until_step(13)
    job.post("pause")
    job.until("paused")
    job.until_told("paused")
    (run,) = server.runs("model-of-through")
    paused_at = job.details()["step"]
    assert sorted(server.steps(run)) == list(range(1, paused_at + 1))
    assert (run["info"]["status"], tags(run)["nhx.status"]) == ("SCHEDULED", "paused")
    assert (tags(run)["team"], tags(run)["job"], run["info"]["run_name"]) == ("blue", "through", "through")

    job.post("resume")
    job.until("active")
    job.until_told("running")
    assert server.runs("model-of-through")[0]["info"]["status"] == "RUNNING"
    program.end(signal.SIGKILL)
    job.program = program = service()
    job.until("error")
    job.until_told("failed")
    (run,) = server.runs("model-of-through")
    assert (run["info"]["status"], tags(run)["nhx.status"]) == ("FAILED", "failed")
    assert job.details()["mlflow_run"]["step"] == 40, "only what a checkpoint covers is told"
    assert max(server.steps(run)) == 40

    job.post("rerun")
    job.until("completed")
    job.until_told("finished")
    (run,) = server.runs("model-of-through")
    assert sorted(server.steps(run)) == list(range(1, STEPS + 1))
    assert (run["info"]["status"], tags(run)["nhx.status"]) == ("FINISHED", "finished")
    details = job.details()
    assert "mlflow_warning" not in details
    assert details["mlflow_run"]["id"] == run["info"]["run_id"]
    assert run["info"]["run_id"] in details["mlflow_run"]["url"]
    folder = program.data_dir / "trackers" / "wandb" / job.get()["id"]
    offline = wandb_offline(trackers_python, folder, details["wandb_run"]["id"])
    assert offline["steps"] == list(range(1, STEPS + 1))
    assert offline["folders"] >= 3


def test_a_tracker_that_is_down_stuck_or_loses_answers_delays_nobody_and_catches_up(
    service, gate, mlflow_address
):
    gate.shut()
    program = service(NHX_TRACKERS_TIMEOUT_SECONDS="6")
    server = Mlflow(mlflow_address)
    job = submit(program, tracked("down", {"mlflow": {"tracking_uri": gate.address}}, step_seconds="0.02"))
    job.until("completed")
    until(lambda: job.details().get("mlflow_warning"), "a warning")
    assert server.runs("model-of-down") == []
    gate.stuck = True
    gate.open()
    other = submit(program, tracked("stuck", {"mlflow": {"tracking_uri": gate.address}}, step_seconds="0.02"))
    other.until("completed")
    gate.stuck, gate.lossy = False, True
    until(lambda: gate.lost >= 2, "answers were lost")
    gate.lossy = False
    for followed in (job, other):
        followed.until_told("finished", ["mlflow"])
        (run,) = server.runs(f"model-of-{followed.name}")
        assert sorted(server.steps(run)) == list(range(1, STEPS + 1))
        assert run["info"]["status"] == "FINISHED"
        assert "mlflow_warning" not in followed.details()


@pytest.fixture
def offline(tmp_path, trackers_python):
    """A publisher of offline runs of W&B, with one open that has ten steps."""
    environment = {**engine_environ(), "WANDB_MODE": "offline", "HOME": str(tmp_path)}
    publisher = PublisherProcess(trackers_python, environment, tmp_path / "log", timeout=120)
    publisher.ask(**opening(tmp_path), run_id=None)
    publisher.ask(op="log", job="job-1", rows=rows_to(10), at=1)
    yield publisher
    publisher.kill()


def opening(folder):
    run = {"op": "open", "tracker": "wandb", "job": "job-1", "folder": str(folder), "entity": None}
    return run | {"project": "p", "name": "n", "notes": None, "labels": [], "tags": {}}


def rows_to(last):
    return [[step, {"loss": 1.0 / step}] for step in range(1, last + 1)]


def writers(folder):
    """W&B's own programs that run for the publishers of this test."""
    found = []
    for pid in trees.marked("HOME", str(folder)):
        with contextlib.suppress(OSError):
            if b"wandb-core" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


FINISH = """
import os, signal, sys, threading
from pathlib import Path
from nemo_engines.trackers import wandb_files
from nemo_engines.trackers.runs import MetricsRow, RunOpening
from nemo_engines.trackers.wandb_run import WandbRun
folder = Path(sys.argv[1])
rest = {"run_id": None, "project": "p", "name": "n", "notes": None, "entity": None, "labels": [], "tags": {}}
run = WandbRun(RunOpening.from_json({"job": "job-1", **rest}, folder))
service = run._run._wl.assert_service()
writer, finish, stopped = service._proc._process.pid, service.inform_finish, threading.Event()
def inform_finish(run_id):
    os.kill(writer, signal.SIGSTOP)
    finish(run_id)
    stopped.set()
service.inform_finish = inform_finish
run.log([MetricsRow(step, {"loss": 1.0}) for step in range(1, 21)], at=1)
telling = threading.Thread(target=run.set_state, args=("finished",), daemon=True)
telling.start()
assert stopped.wait(100)
telling.join(1)
print("told" if not telling.is_alive() else "waits")
os.kill(writer, signal.SIGCONT)
telling.join(100)
os.kill(writer, signal.SIGKILL)
print([step for file in wandb_files.files_of(folder, "job-1") for step in wandb_files.steps(file)])
sys.stdout.flush()
os._exit(0)
"""


def test_the_end_of_a_run_is_told_once_everything_is_in_its_file(tmp_path, trackers_python):
    """W&B says that a run is finished before its own program, which may be slow, has written it."""
    environment = {**engine_environ(), "WANDB_MODE": "offline", "HOME": str(tmp_path)}
    argv = [str(trackers_python), "-c", FINISH, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.stdout.splitlines() == ["waits", str(list(range(1, 21)))], done.stderr


def test_a_publisher_whose_library_lost_its_own_program_ends_and_the_next_is_sent_it_again(
    offline, tmp_path, trackers_python
):
    (writer,) = writers(tmp_path)
    os.kill(writer, signal.SIGKILL)
    until(lambda: not writers(tmp_path), "it is gone")

    def publish():
        offline.ask(op="log", job="job-1", rows=rows_to(20), at=2)
        offline.ask(op="tell", job="job-1", state="finished")

    with pytest.raises(UnreachableError):
        publish()
    assert offline.ask(**opening(tmp_path), run_id="job-1")["last"] <= 10
    publish()
    assert wandb_offline(trackers_python, tmp_path, "job-1")["steps"] == list(range(1, 21))


def test_a_publisher_is_killed_with_what_its_library_has_started(offline, tmp_path):
    assert writers(tmp_path)
    offline.kill()
    assert not writers(tmp_path)


def test_a_publisher_that_is_killed_has_lost_what_it_had_not_written_and_is_sent_it_again(
    offline, tmp_path, trackers_python
):
    offline.kill()
    said = offline.ask(**opening(tmp_path), run_id="job-1")
    assert (said["run_id"], 0 <= said["last"] <= 10) == ("job-1", True)
    offline.ask(op="log", job="job-1", rows=rows_to(20), at=2)
    offline.ask(op="tell", job="job-1", state="finished")
    assert wandb_offline(trackers_python, tmp_path, "job-1")["steps"] == list(range(1, 21))
    with pytest.raises(TrackerRefusedError):
        offline.ask(op="log", job="job-1", rows=rows_to(20), at=2)
    offline.close()
