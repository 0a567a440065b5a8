"""Jobs of real processes under the controller: pause, resume, cancel, failure, rerun."""

import json
import time

import pytest
from tests.helix_workplace import Workplace, shell, step, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.environments import LocalPlace
from nemo_trainer import contract

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path / "data").start()
    yield place
    place.close()


def test_steps_run_one_after_another_and_share_the_storage(place):
    job = place.job(
        shell('echo made >"$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/file"', name="first"),
        shell('cat "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/file"', name="second"),
    )
    place.until(job, Status.COMPLETED)
    assert json.loads(place.output(job).splitlines()[0])["m"] == "made"


def test_the_storage_of_a_job_that_has_come_to_rest_is_measured(place):
    job = place.job(shell('head -c 300000 /dev/zero >"$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/file"'))
    place.until(job, Status.COMPLETED)

    def size():
        with place.store.read() as unit:
            return unit.jobs.by_id(job).storage_bytes or 0

    place.wait_for(lambda: size() >= 300_000)


def test_a_step_finds_its_configuration(place):
    job = place.job(shell('cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"', config={"rate": 0.5}))
    place.until(job, Status.COMPLETED)
    lines = [json.loads(line)["m"] for line in place.output(job).splitlines()]
    assert json.loads("".join(lines)) == {"rate": 0.5}


def wait_for_step(place, job, number):
    progress = place.trainer(job) / "progress.json"
    place.wait_for(lambda: (contract.read_progress(progress).get("step") or 0) >= number)


def test_a_training_pauses_resumes_and_completes_with_every_step_once(place):
    job = place.job(training(120, 0.02))
    wait_for_step(place, job, 5)
    place.pause(job)
    paused = place.until(job, Status.PAUSED)
    at = paused.status_details["step"]
    with place.store.read() as unit:
        newest = unit.checkpoints.of_job(job)[0]
    assert (newest.step, newest.reason, newest.problem) == (at, "pause", None)
    place.resume(job)
    place.until(job, Status.COMPLETED)
    with place.store.read() as unit:
        points = unit.series.documents(job)["train_loss"]
    assert [point["step"] for point in points] == list(range(1, 121))
    assert place.history(job, job_only=True)[-4:] == [
        "paused>resuming",
        "resuming>pending",
        "pending>active",
        "active>completed",
    ]


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("exit 0", Status.COMPLETED, None),
        ("exit 75", Status.ERROR, "checkpoint_not_verified"),
        ("exit 1", Status.ERROR, "workload_failed"),
        ("kill -KILL $$", Status.ERROR, "workload_failed"),
        ("kill -TERM $$", Status.ERROR, "workload_failed"),
    ],
)
def test_only_a_proven_checkpoint_makes_a_pause(place, script, status, reason):
    waits = f'until grep -qs pause "$NEMO_JOB_CONTROL_FILE"; do sleep 0.02; done; {script}'
    job = place.job(shell(waits, name="training", pause=60))
    place.until(job, Status.ACTIVE)
    place.pause(job)
    ended = place.until(job, status)
    assert ended.reason == reason


def test_a_pause_that_takes_too_long_ends_in_error_and_a_rerun_goes_on_from_the_newest_checkpoint(place):
    job = place.job(training(60, 0.1, "--save-every", 5, "--ignore-pause", pause=1))
    wait_for_step(place, job, 11)
    place.pause(job)
    failed = place.until(job, Status.ERROR, Status.COMPLETED)
    assert failed.reason == "pause_deadline_missed"
    # the last line of its log is told whatever it failed of
    assert json.loads(place.output(job).splitlines()[-1])["m"] == failed.error_details["detail"]
    place.rerun(job)
    place.until(job, Status.COMPLETED)
    rows = (place.trainer(job) / "metrics.jsonl").read_text().splitlines()
    continued = [json.loads(row)["continue_from"] for row in rows if "continue_from" in row]
    assert continued
    assert continued[-1] >= 10


def test_a_withdrawn_pause_leaves_the_training_alone_or_starts_it_again(place):
    job = place.job(training(80, 0.02))
    wait_for_step(place, job, 3)
    for _ in range(5):
        place.pause(job)
        place.resume(job)
        time.sleep(0.05)
    place.until(job, Status.COMPLETED)
    with place.store.read() as unit:
        points = unit.series.documents(job)["train_loss"]
    assert [point["step"] for point in points] == list(range(1, 81))


def test_cancel_ends_whatever_runs(place):
    job = place.job(shell("trap '' TERM; while :; do sleep 0.05; done"))
    place.until(job, Status.ACTIVE)
    place.cancel(job)
    cancelled = place.until(job, Status.CANCELLED)
    assert cancelled.reason == "cancelled_by_user"
    place.wait_for(lambda: place.get(job).storage_reclaimed_at)
    place.wait_for(lambda: not place.storage.paths("default", job).storage.exists())


@pytest.mark.parametrize(
    ("how", "reason", "says"),
    [
        ("oom", "out_of_memory", "memory"),
        ("gpu-oom", "out_of_memory", "GPU"),
        ("disk", "disk_full", "disk"),
        ("nan", "workload_failed", "diverged"),
        ("exit", "workload_failed", "exited"),
    ],
)
def test_a_failure_is_explained_by_its_evidence(place, how, reason, says):
    job = place.job(training(50, 0, "--fail-at", 20, "--fail-how", how))
    failed = place.until(job, Status.ERROR)
    assert failed.reason == reason
    assert says in failed.error_details["message"]
    assert failed.status_details["resumable"] is (how == "exit")


def test_a_rerun_from_a_named_checkpoint_starts_there(place):
    job = place.job(training(50, 0, "--fail-at", 40, "--save-every", 10, "--keep", 10))
    place.until(job, Status.ERROR)
    with place.store.read() as unit:
        known = {checkpoint.step: checkpoint.id for checkpoint in unit.checkpoints.of_job(job)}
    assert {10, 20, 30} <= set(known)
    place.rerun(job, checkpoint=known[20])
    place.until(job, Status.COMPLETED)
    rows = (place.trainer(job) / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["continue_from"] for row in rows if "continue_from" in row] == [20]


def test_a_step_that_had_completed_is_not_run_again_when_its_outputs_verify(place):
    made = training(5, 0)
    made["name"] = "first"
    job = place.job(made, shell('test -e "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/go"', name="second"))
    place.until(job, Status.ERROR)
    (place.storage.paths("default", job).storage / "go").touch()
    place.rerun(job)
    place.until(job, Status.COMPLETED)
    assert "created>completed" in place.history(job)


def test_a_changed_environment_is_told_on_resume(place, monkeypatch):
    digests = iter(["sha256:old", "sha256:new"])
    monkeypatch.setattr(LocalPlace, "environment_digest", lambda *_about: next(digests))
    job = place.job(training(200, 0.02))
    wait_for_step(place, job, 2)
    place.pause(job)
    place.until(job, Status.PAUSED)
    place.resume(job)
    place.until(job, Status.ACTIVE)
    warning = place.step_of(job).status_details["image_digest_warning"]
    assert "sha256:old" in warning
    assert "sha256:new" in warning
    place.cancel(job)
    place.until(job, Status.CANCELLED)


def test_a_missing_secret_fails_the_start_with_what_to_do(place):
    job = place.job(shell("true", environment=[{"name": "KEY", "from_secret": {"name": "nowhere"}}]))
    failed = place.until(job, Status.ERROR)
    assert failed.reason == "start_failed"
    assert "nemo secrets create" in failed.error_details["message"]
    # a rerun helps once there is one, and not before
    said = place.step_of(job).error_details
    assert (said["rerun"], said["rerun_after_change"]) == ("runs the step main again", True)
    assert said["advice"].startswith("once that is put right, use `nemo jobs rerun ")


def test_a_secret_comes_from_its_file_and_is_hidden_in_the_log(place):
    folder = place.folder / "secrets" / "default"
    folder.mkdir(parents=True)
    (folder / "my-key").write_text("very-secret-value")
    variables = [{"name": "KEY", "from_secret": {"name": "my-key"}}]
    job = place.job(shell('echo "$KEY $NEMO_JOB_SECRETS"', environment=variables))
    place.until(job, Status.COMPLETED)
    assert json.loads(place.output(job))["m"] == "*** KEY=default/my-key"


def test_a_secret_of_another_workspace_is_refused(place):
    variables = [{"name": "KEY", "from_secret": {"name": "other/key"}}]
    job = place.job(shell("true", environment=variables))
    assert "another workspace" in place.until(job, Status.ERROR).error_details["message"]
    assert place.step_of(job).error_details["rerun"] is None


def test_jobs_wait_in_turn_and_say_for_what(tmp_path):
    place = Workplace(tmp_path / "data", slots=1).start()
    first = place.job(shell("sleep 600"), name="first-one")
    place.until(first, Status.ACTIVE)
    second = place.job(shell("true"))
    third = place.job(shell("true"))
    for job in (second, third):
        assert place.until(job, Status.QUEUED).reason == "waiting_for_capacity"
    assert "default/first-one" in place.step_of(second).status_details["message"]
    place.cancel(first)
    place.until(second, Status.COMPLETED)
    place.until(third, Status.COMPLETED)
    place.until(first, Status.CANCELLED)
    with place.store.read() as unit:
        from nemo_helix_server.store.queries import TransitionQuery

        rows = unit.transitions.since(TransitionQuery(limit=1000))
    accepted = [row.job_id for row in rows if row.step_id and row.to == "pending"]
    assert accepted == [first, second, third]
    place.close()


def test_more_memory_than_the_limit_is_an_out_of_memory(place):
    script = "x = [bytearray(16 << 20) for _ in range(60)]; import time; time.sleep(600)"
    import sys

    job = place.job(step([sys.executable, "-c", script], resources={"limits": {"memory": "200Mi"}}))
    assert place.until(job, Status.ERROR).reason == "out_of_memory"


def test_every_transition_is_in_the_job_s_folder(place):
    job = place.job(shell("exit 0"))
    place.until(job, Status.COMPLETED)
    folder = place.storage.paths("default", job).folder

    def read(name):
        return json.loads((folder / name).read_text())

    place.wait_for(lambda: (folder / "job.json").exists() and read("job.json")["status"] == "completed")
    lines = [json.loads(line) for line in (folder / "transitions.jsonl").read_text().splitlines()]
    assert [f"{row['origin']}>{row['to']}" for row in lines if row["step_id"]] == place.history(job)
    assert [row["seq"] for row in lines] == sorted({row["seq"] for row in lines})
    assert read("attempts/0.json")["status"] == "completed"
    place.wait_for(lambda: read("steps/0-main.json")["status"] == "completed")
