import hashlib
import json
import os

import pytest

from nemo_trainer.contract import (
    MANIFEST,
    Checkpoint,
    CheckpointUnusableError,
    Damaged,
    FileEntry,
    Manifest,
    list_checkpoints,
    newest_verified,
    read_checkpoint,
    read_manifest,
    verify,
    write_manifest,
)

pytestmark = pytest.mark.services

FILES = {"model.bin": b"weights" * 100, "sub/optimizer.bin": b"moments", "empty": b""}


def make(trainer_path, step, files=FILES, **fields):
    folder = trainer_path / "checkpoints" / str(step)
    entries = []
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        entries.append(FileEntry(name, len(data), hashlib.sha256(data).hexdigest()))
    write_manifest(folder, Manifest(step=step, files=tuple(entries), **fields))
    return folder


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    manifest = Manifest(
        step=7,
        files=(FileEntry("a/b", 3, "0" * 64),),
        job="j",
        attempt="a",
        task="t",
        created_at=1.5,
        engine={"name": "trl", "deep": {"x": [1]}},
        environment="sha256:1",
        inputs={"data": "1"},
        metrics={"loss": 0.1},
        reason="pause",
    )
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest


def test_a_whole_checkpoint_verifies_and_has_an_id_of_its_own(tmp_path):
    folder = make(tmp_path, 20)
    assert verify(folder, deep=True) == []
    checkpoint = read_checkpoint(folder)
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    assert checkpoint.id == f"ckpt-20-{digest[:10]}"
    assert checkpoint.size == sum(map(len, FILES.values()))
    assert newest_verified(tmp_path, deep=True) == (checkpoint, ())


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("damage", ["missing", "longer", "shorter", "flipped", "folder"])
def test_damage_in_any_file_is_named_and_passed_over(tmp_path, name, damage):
    good = make(tmp_path, 10)
    bad = make(tmp_path, 20)
    path, data = bad / name, FILES[name]
    path.unlink()
    if damage == "longer":
        path.write_bytes(data + b"x")
    elif damage == "shorter":
        path.write_bytes(data[:-1] if data else b"xx")
    elif damage == "flipped":
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:] if data else b"y")
    elif damage == "folder":
        path.mkdir()
    found = newest_verified(tmp_path, deep=True)
    assert found.checkpoint is not None
    assert found.checkpoint.folder == good
    assert [(item.step, item.folder) for item in found.passed_over] == [(20, bad)]
    assert str(path) in found.passed_over[0].problem


def test_a_changed_byte_needs_the_deep_look(tmp_path):
    folder = make(tmp_path, 20)
    (folder / "model.bin").write_bytes(FILES["model.bin"].upper())
    assert verify(folder, deep=False) == []
    assert len(verify(folder, deep=True)) == 1


def test_a_manifest_cut_at_any_byte_is_damage(tmp_path):
    make(tmp_path, 10)
    folder = make(tmp_path, 20)
    data = (folder / MANIFEST).read_bytes()
    for size in range(len(data.rstrip())):
        (folder / MANIFEST).write_bytes(data[:size])
        found = newest_verified(tmp_path, deep=False)
        assert (found.checkpoint.step, len(found.passed_over)) == (10, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"step": 0},
        {"step": "20"},
        {"step": 21},
        {"files": None},
        {"files": []},
        {"files": [{"path": "../10/model.bin", "size": 700, "sha256": ""}]},
        {"files": [{"path": "/etc/hostname", "size": 1, "sha256": ""}]},
        {"files": [{"path": "model.bin", "size": -1, "sha256": ""}]},
        {"files": [{"path": "model.bin", "size": True, "sha256": ""}]},
        {"files": [{"path": "a\0b", "size": 1, "sha256": ""}]},
        {"files": [{"path": "", "size": 0, "sha256": ""}]},
        {"reason": "because"},
        {"metrics": {"loss": "low"}},
        {"inputs": [1]},
    ],
)
def test_a_manifest_that_says_something_impossible_is_damage(tmp_path, change):
    make(tmp_path, 10)
    folder = make(tmp_path, 20)
    value = json.loads((folder / MANIFEST).read_bytes())
    del value["sha256"]  # which others need not write
    (folder / MANIFEST).write_text(json.dumps({**value, **change}))
    found = newest_verified(tmp_path, deep=True)
    assert found.checkpoint.step == 10
    assert [item.step for item in found.passed_over] == [20]


def test_a_bit_that_has_turned_anywhere_in_a_manifest_is_damage_and_no_other_input(tmp_path):
    folder = make(tmp_path, 20, inputs={"seed": "42"}, metrics={"loss": 0.5})
    data, written, damaged = (folder / MANIFEST).read_bytes(), read_manifest(folder), 0
    for place in range(len(data)):
        (folder / MANIFEST).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        found = newest_verified(tmp_path, deep=True).checkpoint
        assert found is None or found.manifest == written, data[place - 20 : place + 20]
        damaged += found is None
    # all but those of the name under which the digest stands
    assert damaged == len(data) - len("sha256")


def test_a_manifest_of_others_needs_no_digest_of_its_own(tmp_path):
    folder = make(tmp_path, 20)
    value = json.loads((folder / MANIFEST).read_bytes())
    del value["sha256"]
    (folder / MANIFEST).write_text(json.dumps(value))
    assert verify(folder, deep=True) == []


@pytest.mark.parametrize("name", ["model.safetensors", "sub/more.bin"])
def test_what_was_put_into_a_checkpoint_later_is_named(tmp_path, name):
    make(tmp_path, 10)
    folder = make(tmp_path, 20)
    (folder / ".nfs0001").touch()
    (folder / "PINNED").touch()
    assert verify(folder, deep=True) == []
    os.symlink("/dev/zero", folder / name)
    found = newest_verified(tmp_path, deep=True)
    assert found.checkpoint.step == 10
    assert found.passed_over[0].problem == f"{folder / name}: is not part of the checkpoint; remove it"


def test_a_file_behind_a_link_that_leads_out_is_not_read(tmp_path):
    folder = make(tmp_path, 20)
    outside = tmp_path / "outside"
    outside.write_bytes(FILES["model.bin"])
    (folder / "model.bin").unlink()
    (folder / "model.bin").symlink_to(outside)
    assert "leads out" in verify(folder, deep=True)[0]


def test_a_link_in_a_circle_is_a_problem_and_no_crash(tmp_path):
    folder = make(tmp_path, 20)
    (folder / "model.bin").unlink()
    (folder / "model.bin").symlink_to("model.bin")
    assert len(verify(folder, deep=True)) == 1


def test_steps_are_in_the_order_of_numbers_and_other_names_are_not_looked_at(tmp_path):
    for step in (9, 100, 20):
        make(tmp_path, step)
    (tmp_path / "checkpoints" / "30").mkdir()
    for name in (".staging-40", "latest", "007", "0", "²"):
        (tmp_path / "checkpoints" / name).mkdir()
    (tmp_path / "checkpoints" / "50").write_bytes(b"")
    listed = list_checkpoints(tmp_path)
    assert [item.step for item in listed] == [9, 20, 30, 50, 100]
    assert [type(item) for item in listed] == [Checkpoint, Checkpoint, Damaged, Damaged, Checkpoint]


def test_no_folder_at_all_means_no_checkpoint(tmp_path):
    assert list_checkpoints(tmp_path / "none") == []
    assert newest_verified(tmp_path / "none", deep=True) == (None, ())


def test_a_folder_without_a_manifest_is_no_checkpoint(tmp_path):
    with pytest.raises(CheckpointUnusableError, match="has no MANIFEST"):
        read_manifest(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_problem(tmp_path):
    folder = make(tmp_path, 20)
    (folder / "model.bin").chmod(0)
    assert "cannot be read" in verify(folder, deep=True)[0]
