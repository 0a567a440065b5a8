"""What a workload leaves in its folders on the cluster, whatever it is, holds up nobody and leads nowhere."""

import hashlib
import os

import pytest

from nemo_helix_server.executors.slurm.on_cluster import looking, wire
from nemo_helix_server.executors.slurm.on_cluster.looking import LARGEST
from nemo_helix_server.executors.slurm.on_cluster.requests import answer
from nemo_trainer import contract

TOKEN = "task-" + "a" * 32


@pytest.fixture
def job(tmp_path):
    (tmp_path / "root" / "jobs" / "j" / "runs" / TOKEN).mkdir(parents=True)
    (tmp_path / "root" / "jobs" / "j" / "storage" / "training" / "checkpoints").mkdir(parents=True)
    (tmp_path / "key").write_text("the key of somebody")
    return tmp_path / "root" / "jobs" / "j"


def look(job, have=None):
    asked = {
        "token": TOKEN,
        "run": str(job / "runs" / TOKEN),
        "trainer": str(job / "storage" / "training"),
        "have": have or {},
    }
    return answer({"op": "look", "runs": [asked]})["runs"][TOKEN]


@pytest.mark.parametrize("name", ["progress.json", "metrics.jsonl", "generations"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "loop", "device"])
def test_a_file_of_a_training_that_is_none_is_passed_over(job, tmp_path, name, kind):
    make(job / "storage" / "training" / name, kind, tmp_path)
    found = look(job)
    assert "the key of somebody" not in str(found)
    assert not found.get("trainer", {}).get(name)
    assert not found.get("metrics", {}).get(name)


@pytest.mark.parametrize("name", ["exit.json", "output.jsonl", "slurm.log", "claim.json", "output.1.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "loop"])
def test_a_file_of_a_run_that_is_none_is_passed_over(job, tmp_path, name, kind):
    make(job / "runs" / TOKEN / name, kind, tmp_path)
    found = look(job)
    assert "the key of somebody" not in str(found)
    assert not found["run"].get(name)
    assert not [piece for piece in found["log"] if piece["data"]]


def test_files_that_are_too_large_to_be_what_they_should_are_passed_over(job):
    with (job / "storage" / "training" / "progress.json").open("wb") as file:
        file.truncate(wire.SMALL + 1)
    with (job / "storage" / "training" / "metrics.jsonl").open("wb") as file:
        file.truncate(3 * LARGEST)
    found = look(job)
    assert "progress.json" not in found["trainer"]
    assert len(found["metrics"]["metrics.jsonl"]["data"]) == LARGEST


def test_thousands_of_files_are_not_all_sent(job):
    for number in range(looking.MOST_FILES + 50):
        (job / "storage" / "training" / f"progress.g{number}.json").write_text("{}")
    assert len(look(job)["trainer"]) <= looking.MOST_FILES


def test_of_many_generations_the_newest_are_sent(job):
    trainer = job / "storage" / "training"
    (trainer / "generations").mkdir()
    (trainer / "progress.json").write_text("{}")
    (trainer / "generations" / "not-one").write_text("")
    for number in range(1, 151):
        for name in (f"generations/{number}", f"generations/{number}.takeover", f"progress.g{number}.json"):
            (trainer / name).write_text("{}")
        (trainer / f"metrics.g{number}.jsonl").write_text("{}\n")
    for number in range(151, 251):
        (trainer / f"metrics.g{number}.jsonl").write_text("{}\n")
    found = look(job)
    assert {"generations/150", "generations/150.takeover", "progress.g150.json"} <= set(found["trainer"])
    assert "progress.json" in found["trainer"]
    assert "generations/1" not in found["trainer"]
    assert "metrics.g250.jsonl" in found["metrics"]
    assert "metrics.g1.jsonl" not in found["metrics"]


def test_between_thorough_looks_only_names_are_looked_at(job):
    trainer = job / "storage" / "training"
    checkpoint = trainer / "checkpoints" / "20"
    save(trainer, 20)
    first = look(job, {"thorough": True})
    (one,) = first["checkpoints"]
    assert (one["problem"], first["bytes"] > 0) == (None, True)
    have = {"thorough": False, "listed": first["listed"], "checkpoints": "other"}
    (checkpoint / "weights.bin").write_bytes(b"")
    found = look(job, have)
    assert (found["checkpoints"], found["bytes"]) == (None, None)
    assert look(job, {**have, "thorough": True})["checkpoints"][0]["problem"]
    save(trainer, 40)  # a new one is seen at once
    assert [one["step"] for one in look(job, have)["checkpoints"]] == [20, 40]
    have["listed"] = look(job, have)["listed"]
    assert look(job, have)["checkpoints"] is None
    (job / "runs" / TOKEN / "exit.json").write_text("{}")  # it may be the last look
    assert look(job, have)["bytes"] is not None


def save(trainer, step):
    folder = trainer / "checkpoints" / str(step)
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"w")
    entry = contract.FileEntry("weights.bin", 1, hashlib.sha256(b"w").hexdigest())
    manifest = contract.Manifest(step=step, files=(entry,), job="j", attempt="a", task=TOKEN, created_at=1.0)
    contract.write_manifest(folder, manifest)


def make(path, kind, tmp_path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "key")
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.symlink_to(os.devnull)
