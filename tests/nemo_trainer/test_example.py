import json
import os
import random
import signal
import time

import pytest
from tests.nemo_trainer import trainings
from tests.nemo_trainer.trainings import eventually, run, start, weights

from nemo_trainer.contract import (
    Control,
    history,
    newest_verified,
    read_progress,
    verify_outputs,
    write_control,
)
from nemo_trainer.contract.allocation import Allocation, write_allocation

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(folder, "--steps", "60", "--save-every", "7")
    return weights(folder)


def steps(folder):
    return [row.step for row in history(folder / "metrics.jsonl")]


def begun(folder):
    return (folder / "metrics.jsonl").exists() and len(steps(folder)) >= 3


def test_it_learns_and_says_what_it_made(tmp_path):
    _, out, _ = run(tmp_path, "--steps", "60")
    rows = history(tmp_path / "metrics.jsonl")
    losses = [row.values["train_loss"] for row in rows]
    assert steps(tmp_path) == list(range(1, 61))
    assert sum(losses[-10:]) < sum(losses[:10]) / 2
    assert verify_outputs(tmp_path, storage=tmp_path, deep=True) == []
    assert out.endswith("done after step 60\n")


def test_paused_by_the_file_it_goes_on_and_ends_with_the_same_bits(tmp_path, uninterrupted):
    control = tmp_path / "control.json"
    env = {
        "NEMO_JOB_CONTROL_FILE": str(control),
        "NEMO_JOB_TASK": "task-1",
        "NEMO_JOB_ATTEMPT_ID": "attempt-1",
    }
    options = ["--steps", "60", "--save-every", "7"]
    process = start(tmp_path, *options, "--step-seconds", "0.02", env=env)
    eventually(lambda: begun(tmp_path), process)
    write_control(control, Control(1, "pause", "ada", time.time()))
    out, err = process.communicate(timeout=trainings.TIMEOUT)
    assert (process.returncode, err) == (75, "")
    newest = newest_verified(tmp_path, deep=True).checkpoint
    progress = read_progress(tmp_path / "progress.json")
    assert (newest.step, newest.manifest.reason, newest.manifest.task) == (
        steps(tmp_path)[-1],
        "pause",
        "task-1",
    )
    assert (progress["phase"], progress["final_step"], progress["seq_seen"]) == ("paused", newest.step, 1)
    write_control(control, Control(2, "run", "ada", time.time()))
    _, out, _ = run(tmp_path, *options, env={**env, "NEMO_JOB_TASK": "task-2"})
    assert out.startswith(f"continuing from step {newest.step}")
    assert weights(tmp_path) == uninterrupted
    assert steps(tmp_path) == list(range(1, 61))


def test_a_pause_waits_for_the_boundary(tmp_path):
    process = start(tmp_path, "--steps", "600", "--boundary", "8", "--step-seconds", "0.01")
    eventually(lambda: begun(tmp_path), process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=trainings.TIMEOUT)
    assert process.returncode == 75
    assert newest_verified(tmp_path, deep=True).checkpoint.step % 8 == 0


def test_a_wish_to_stop_ends_it_without_another_checkpoint(tmp_path):
    control = tmp_path / "control.json"
    env = {"NEMO_JOB_CONTROL_FILE": str(control)}
    process = start(tmp_path, "--steps", "600", "--save-every", "1000", "--step-seconds", "0.01", env=env)
    eventually(lambda: begun(tmp_path), process)
    write_control(control, Control(1, "stop", "ada", time.time()))
    process.communicate(timeout=trainings.TIMEOUT)
    assert process.returncode == 0
    assert newest_verified(tmp_path, deep=True).checkpoint is None


@pytest.mark.slow
def test_killed_at_twenty_random_moments_it_ends_with_the_same_bits(tmp_path, uninterrupted):
    moments = random.Random(11)
    options = ["--steps", "60", "--save-every", "7", "--ballast", "200000"]
    finished = 0
    folder = tmp_path / "0"
    for number in range(20):
        process = start(folder, *options, "--step-seconds", "0.004")
        process.stdout.readline()
        time.sleep(moments.random() * 0.25)
        process.kill()
        process.communicate(timeout=trainings.TIMEOUT)
        if (folder / "OUTPUTS.json").exists():
            assert weights(folder) == uninterrupted
            finished += 1
            folder = tmp_path / str(number + 1)
    run(folder, *options)
    assert weights(folder) == uninterrupted
    assert steps(folder) == list(range(1, 61))
    assert finished < 15


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [
        ("exit", 1, "failing before step 12"),
        ("oom", 1, "MemoryError"),
        ("gpu-oom", 1, "CUDA out of memory"),
        ("nan", 5, "the loss of step 12 is nan"),
        ("disk", 1, "No space left on device"),
        ("kill", -9, "failing before step 12"),
    ],
)
def test_it_fails_as_it_is_told_and_then_gets_through(tmp_path, how, code, text):
    options = ["--steps", "20", "--save-every", "5", "--fail-at", "12", "--fail-how", how]
    _, out, err = run(tmp_path, *options, expect=code)
    assert text in out + err
    assert newest_verified(tmp_path, deep=True).checkpoint.step == 10
    _, out, _ = run(tmp_path, *options)
    assert out.startswith("continuing from step 10")
    assert steps(tmp_path) == list(range(1, 21))


def test_options_come_from_the_steps_configuration_too(tmp_path):
    config = tmp_path / "job_step_config.json"
    config.write_text(json.dumps({"steps": 4, "save_every": 2, "step_seconds": 0}))
    env = {"NEMO_JOB_STEP_CONFIG_FILE_PATH": str(config)}
    run(tmp_path / "a", env=env)
    assert steps(tmp_path / "a") == [1, 2, 3, 4]
    run(tmp_path / "b", "--steps", "3", env=env)
    assert steps(tmp_path / "b") == [1, 2, 3]


@pytest.mark.parametrize(
    ("config", "options", "text"),
    [
        ({"steps": "many"}, [], "steps is 'many'; it must be a whole number"),
        ({"steps": 1.5}, [], "steps is 1.5; it must be a whole number"),
        ({"ignore_pause": "yes"}, [], "it must be true or false"),
        ({"step": 3}, [], "'step' is not an option of the example"),
        ([], [], "must hold an object"),
        ({}, ["--steps", "0"], "must be at least 1"),
        ({}, ["--fail-how", "boom"], "must be one of exit"),
        ({}, ["--what"], "unrecognized arguments: --what"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_2(tmp_path, config, options, text):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    env = {"NEMO_JOB_STEP_CONFIG_FILE_PATH": str(path)}
    _, _, err = run(tmp_path / "t", *options, env=env, expect=2)
    assert text in err
    assert err.count("\n") == 1


def test_other_data_under_a_checkpoint_is_exit_4(tmp_path):
    run(tmp_path, "--steps", "5")
    _, _, err = run(tmp_path, "--steps", "8", "--seed", "2", expect=4)
    assert "belongs to other inputs: data" in err


def test_files_of_a_training_are_what_its_umask_leaves_of_them(tmp_path):
    before = os.umask(0o077)
    try:
        run(tmp_path / "t", "--steps", "6", "--save-every", "2", "--step-seconds", "0")
        write_allocation(tmp_path / "t" / "allocation.json", Allocation(ends_at=1.0, by="Slurm", at=0.0))
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "t").rglob("*") if not path.is_symlink()]
    assert len(made) > 8
    assert [path for path in made if path.stat().st_mode & 0o077] == []
