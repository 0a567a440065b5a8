"""What a start that was cut off has left: whether it had finished, how far it was, where it goes on."""

import hashlib

import pytest

from nemo_helix_server.storage import start_remains
from nemo_helix_server.storage.trainer_files import LocalTrainerFiles
from nemo_trainer import contract

TASK = "task-1"


def say(folder, **fields):
    contract.write_progress(folder / "progress.json", {"task": TASK, **fields}, durable=True)


def save(folder, step, *, attempt="attempt-1"):
    place = folder / "checkpoints" / str(step)
    place.mkdir(parents=True)
    (place / "weights").write_bytes(b"weights")
    entry = contract.FileEntry("weights", 7, hashlib.sha256(b"weights").hexdigest())
    contract.write_manifest(place, contract.Manifest(step=step, files=(entry,), attempt=attempt))
    return place


def trainer(folder):
    return LocalTrainerFiles(folder, folder)


def produce(folder):
    (folder / "model").write_bytes(b"model")
    entry = contract.FileEntry("model", 5, hashlib.sha256(b"model").hexdigest())
    contract.write_outputs(folder, contract.Outputs(TASK, 1.0, (entry,)))


@pytest.mark.parametrize(
    ("said", "done"),
    [
        ({"phase": "completed"}, True),
        ({"phase": "training"}, False),
        ({"phase": "completed", "task": "task-0"}, False),
        ({"phase": "completed", "task": None}, False),
    ],
)
def test_only_this_start_says_that_it_is_completed(tmp_path, said, done):
    say(tmp_path, **said)
    assert start_remains.says_done(trainer(tmp_path), TASK) is done
    assert start_remains.is_done(trainer(tmp_path), TASK) is done


def test_results_that_are_named_have_to_be_there(tmp_path):
    say(tmp_path, phase="completed")
    produce(tmp_path)
    assert start_remains.is_done(trainer(tmp_path), TASK)
    (tmp_path / "model").write_bytes(b"mod")
    assert not start_remains.is_done(trainer(tmp_path), TASK)


def test_it_goes_on_from_the_newest_whole_checkpoint(tmp_path):
    assert start_remains.goes_on_from(trainer(tmp_path), "attempt-1", None) is None
    save(tmp_path, 10)
    place = save(tmp_path, 20)
    assert start_remains.goes_on_from(trainer(tmp_path), "attempt-1", None) == 20
    (place / "weights").write_bytes(b"wei")
    assert start_remains.goes_on_from(trainer(tmp_path), "attempt-1", None) == 10


def test_a_named_checkpoint_counts_until_the_attempt_has_its_own(tmp_path):
    save(tmp_path, 20, attempt="attempt-0")
    assert start_remains.goes_on_from(trainer(tmp_path), "attempt-1", "ckpt-10-0123456789") == 10
    save(tmp_path, 30, attempt="attempt-1")
    assert start_remains.goes_on_from(trainer(tmp_path), "attempt-1", "ckpt-10-0123456789") == 30


def test_the_last_step_is_the_furthest_that_is_known(tmp_path):
    assert start_remains.last_step(trainer(tmp_path), TASK) == 0
    say(tmp_path, step=5)
    assert start_remains.last_step(trainer(tmp_path), TASK) == 5
    rows = [contract.MetricRow(step, 1.0, "attempt-1", {"loss": 1.0}).to_line() for step in (6, 7)]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(rows) + b'\n{"step": 8, "torn')
    assert start_remains.last_step(trainer(tmp_path), TASK) == 7
    say(tmp_path, step=9, task="task-0")
    assert start_remains.last_step(trainer(tmp_path), TASK) == 7
    with (tmp_path / "metrics.jsonl").open("wb") as file:
        file.write(contract.ContinueRow(3, "attempt-1", TASK, 1.0).to_line() + b"\n")
    assert start_remains.last_step(trainer(tmp_path), TASK) == 3
