"""What a workload leaves in its folders on the cluster, whatever it is, holds up nobody and leads nowhere."""

import os

import pytest

from nemo_helix_server.executors.slurm.on_cluster import looking, wire
from nemo_helix_server.executors.slurm.on_cluster.looking import LARGEST
from nemo_helix_server.executors.slurm.on_cluster.requests import answer

TOKEN = "task-" + "a" * 32


@pytest.fixture
def job(tmp_path):
    (tmp_path / "root" / "jobs" / "j" / "runs" / TOKEN).mkdir(parents=True)
    (tmp_path / "root" / "jobs" / "j" / "storage" / "training" / "checkpoints").mkdir(parents=True)
    (tmp_path / "key").write_text("the key of somebody")
    return tmp_path / "root" / "jobs" / "j"


def look(job):
    asked = {
        "token": TOKEN,
        "run": str(job / "runs" / TOKEN),
        "trainer": str(job / "storage" / "training"),
        "have": {},
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
