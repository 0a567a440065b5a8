"""Whether a pause is proven: by a checkpoint of this start that covers all that it says it did."""

import hashlib
import os

import pytest

from nemo_helix_server.storage.checkpoints import proof
from nemo_helix_server.storage.trainer_files import LocalTrainerFiles
from nemo_trainer import contract

TASK = "task-1"


def save(folder, step, *, task=TASK, data=b"weights"):
    place = folder / "checkpoints" / str(step)
    place.mkdir(parents=True)
    (place / "weights").write_bytes(data)
    entry = contract.FileEntry("weights", len(data), hashlib.sha256(data).hexdigest())
    contract.write_manifest(place, contract.Manifest(step=step, files=(entry,), task=task, created_at=1.0))
    return place


def leave(folder, **said):
    contract.write_progress(folder / "progress.json", said, durable=True)


def problem(folder, seq=1):
    return proof(LocalTrainerFiles(folder, folder.parent), TASK, seq).problem


def test_a_whole_checkpoint_of_the_last_step_is_a_proof(tmp_path):
    save(tmp_path, 7)
    leave(tmp_path, final_step=7, task=TASK)
    assert proof(LocalTrainerFiles(tmp_path, tmp_path.parent), TASK, 1).step == 7


def test_a_start_that_did_nothing_rests_on_where_it_began(tmp_path):
    save(tmp_path, 7, task="task-0")
    leave(tmp_path, final_step=7, task=TASK)
    assert problem(tmp_path) is None


def test_a_start_that_finished_no_step_has_nothing_to_save(tmp_path):
    leave(tmp_path, final_step=0, task=TASK)
    assert problem(tmp_path) is None


def test_without_a_manifest_there_is_no_proof(tmp_path):
    (tmp_path / "checkpoints" / "7").mkdir(parents=True)
    leave(tmp_path, final_step=7, task=TASK)
    assert "MANIFEST.json" in problem(tmp_path)


def test_nothing_at_all_is_no_proof(tmp_path):
    assert "no checkpoint" in problem(tmp_path)


def test_a_checkpoint_from_before_the_last_step_is_no_proof(tmp_path):
    save(tmp_path, 6)
    leave(tmp_path, final_step=7, task=TASK)
    assert "step 6" in problem(tmp_path)
    assert "step 7" in problem(tmp_path)


def test_a_damaged_one_is_named(tmp_path):
    save(tmp_path, 6)
    place = save(tmp_path, 7)
    (place / "weights").write_bytes(b"wei")
    leave(tmp_path, final_step=7, task=TASK)
    assert str(place / "weights") in problem(tmp_path)


@pytest.mark.parametrize("final", [None, "7", True, 7.0])
def test_without_the_trainer_s_final_record_there_is_no_proof(tmp_path, final):
    save(tmp_path, 7)
    leave(tmp_path, final_step=final, task=TASK)
    assert "final_step" in problem(tmp_path)


def test_the_final_record_of_an_earlier_start_proves_nothing(tmp_path):
    save(tmp_path, 7)
    leave(tmp_path, final_step=7, task="task-0")
    assert "final_step" in problem(tmp_path)


@pytest.mark.parametrize("at", [0, 4_000_000_000])
def test_no_date_of_a_file_counts(tmp_path, at):
    save(tmp_path, 7)
    leave(tmp_path, final_step=7, task=TASK)
    os.utime(tmp_path / "progress.json", (at, at))
    assert problem(tmp_path) is None


def test_a_record_without_a_task_is_known_by_the_request_that_it_has_seen(tmp_path):
    save(tmp_path, 7)
    leave(tmp_path, final_step=7, seq_seen=3)
    assert problem(tmp_path, seq=3) is None
    assert "seq_seen 5" in problem(tmp_path, seq=5)
    for seen in (None, True, "3", 3.0):
        leave(tmp_path, final_step=7, seq_seen=seen)
        assert TASK in problem(tmp_path, seq=3)
    leave(tmp_path, final_step=7)
    assert TASK in problem(tmp_path, seq=0)


def test_a_later_checkpoint_of_an_earlier_start_proves_nothing(tmp_path):
    save(tmp_path, 9, task="task-0")
    leave(tmp_path, final_step=7, task=TASK)
    assert "not of this start" in problem(tmp_path)
