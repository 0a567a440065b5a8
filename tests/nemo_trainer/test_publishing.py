"""What is on the disk when a save ends at any moment, and in which order it gets there."""

import os
import subprocess
import sys

import pytest
from tests.nemo_trainer import trainings

from nemo_trainer import publishing
from nemo_trainer.contract import Manifest, TrainerPaths, list_checkpoints, newest_verified

PUBLISH = """
import os, sys
from pathlib import Path
from nemo_trainer.contract import JobContext
from nemo_trainer.session import Session
last, folder = int(sys.argv[1]), Path(sys.argv[2])
seen = 0
counting = False
def hook(event, _arguments):
    global seen
    if counting and event.split(".")[0] in {"open", "os", "shutil", "tempfile"}:
        seen += 1
        if seen == last:
            os._exit(9)
sys.addaudithook(hook)
with Session.open(JobContext(trainer_path=folder, storage=folder)) as session:
    session.restore()
    def write(to):
        (to / "deep").mkdir()
        (to / "deep" / "state").write_text("new")
        (to / "more").write_text("new")
    counting = True
    session.publish(write, 2)
    session.prune()
    counting = False
"""


def publish_until(last, folder):
    argv = [sys.executable, "-c", PUBLISH, str(last), str(folder)]
    done = subprocess.run(argv, env=trainings.environment(), timeout=trainings.TIMEOUT, check=False)
    assert done.returncode in {0, 9}
    return done.returncode


def published(paths, step, text):
    publishing.publish(
        paths, lambda folder: (folder / "state").write_text(text), Manifest(step=step, files=())
    )


@pytest.mark.slow
@pytest.mark.parametrize("there_already", [False, True])
def test_a_save_that_ends_at_any_file_operation_leaves_a_whole_checkpoint(tmp_path, there_already):
    last, done = 0, 9
    while done == 9:
        last += 1
        folder = tmp_path / str(last)
        paths = TrainerPaths(folder)
        for step in (1, 2) if there_already else (1,):
            published(paths, step, f"old{step}")
        done = publish_until(last, folder)
        newest = newest_verified(folder, deep=True)
        assert newest.passed_over == ()
        assert newest.checkpoint.step in {1, 2}
        if done and last % 5:
            continue
        # the next start goes on and clears up
        assert publish_until(0, folder) == 0
        assert newest_verified(folder, deep=True).checkpoint.manifest.files[0].path == "deep/state"
        assert sorted(path.name for path in paths.checkpoints.iterdir()) == ["1", "2"]
    assert last > 10


def test_files_and_folders_are_on_the_disk_before_the_manifest_and_that_before_the_rename(
    tmp_path, monkeypatch
):
    paths = TrainerPaths(tmp_path)
    done = []
    real_fsync, real_rename, real_replace = os.fsync, type(tmp_path).rename, type(tmp_path).replace

    def fsync(descriptor):
        done.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}").replace(str(paths.checkpoints), "C")))
        real_fsync(descriptor)

    def rename(self, target):
        done.append(("rename", str(target).replace(str(paths.checkpoints), "C")))
        return real_rename(self, target)

    def replace(self, target):
        done.append(("rename", str(target).replace(str(paths.checkpoints), "C")))
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(type(tmp_path), "rename", rename)
    monkeypatch.setattr(type(tmp_path), "replace", replace)

    def write(folder):
        (folder / "deep").mkdir()
        (folder / "deep" / "state").write_text("x")

    publishing.publish(paths, write, Manifest(step=5, files=()))
    told = [(what, "C/.staging-5/TEMPORARY" if ".tmp-" in name else name) for what, name in done]
    assert told == [
        ("sync", "C/.staging-5/deep/state"),
        ("sync", "C/.staging-5/deep"),
        ("sync", "C/.staging-5"),
        ("sync", "C/.staging-5/TEMPORARY"),
        ("rename", "C/.staging-5/MANIFEST.json"),
        ("sync", "C/.staging-5"),
        ("rename", "C/5"),
        ("sync", "C"),
    ]


def test_a_folder_on_another_file_system_is_copied(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(source)]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        folder = source / "save"
        folder.mkdir()
        (folder / "state").write_text("x")
        publishing.publish(TrainerPaths(tmp_path / "job"), folder, Manifest(step=3, files=()))
        assert not folder.exists()
    finally:
        subprocess.run(["umount", "-l", str(source)], check=True)
    assert [item.step for item in list_checkpoints(tmp_path / "job")] == [3]
