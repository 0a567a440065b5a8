"""The folders of jobs: nothing leaves them, and what is removed is out of reach at once."""

import os

import pytest

from nemo_helix_server.errors import InvalidError
from nemo_helix_server.storage.job_folders import JobStorage, checked, name_shortly, size_of
from nemo_helix_server.storage.run_files import StepRun

RUN = StepRun("default", "job", "attempt-1", "training", "task-1")


@pytest.fixture
def storage(tmp_path):
    return JobStorage(tmp_path)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "/a", "a\0b", "..b", ".hidden", "-a", "a\n", "ü", "x" * 256]
)
def test_a_name_that_could_lead_elsewhere_is_refused(storage, name):
    with pytest.raises(InvalidError):
        checked(name)
    with pytest.raises(InvalidError):
        storage.paths(name, "job")
    with pytest.raises(InvalidError):
        storage.paths("default", name)
    with pytest.raises(InvalidError):
        storage.paths("default", "job").trainer(name)
    with pytest.raises(InvalidError):
        storage.paths("default", "job").run_folder(name)


@pytest.mark.parametrize("name", ["default", "platform-job-2k8i3i1HqJHHPVB5M6Bk9Z", "a@b.c+d_e", "task-00ff"])
def test_the_names_of_the_service_are_fine(name):
    assert checked(name) == name


def test_directories_are_taken_back_unless_they_are_in_use(storage):
    paths = storage.paths("default", "job")
    storage.prepare("default", "job")
    storage.undo_prepare("default", "job")
    assert not paths.folder.exists()
    storage.undo_prepare("default", "job")
    storage.prepare("default", "job")
    (paths.storage / "data").touch()
    storage.undo_prepare("default", "job")
    assert (paths.storage / "data").exists()


def test_a_run_finds_its_folders_and_a_configuration_that_it_may_only_read(storage):
    storage.prepare("default", "job")
    paths = storage.paths("default", "job")
    for _ in range(2):
        storage.prepare_run(RUN, {"a": 1})
    config = storage.run_folder(RUN) / "config" / "job_step_config.json"
    assert config.read_text() == '{\n "a": 1\n}\n'
    assert config.stat().st_mode & 0o777 == 0o400
    assert (paths.scratch / "task-1").is_dir()
    assert paths.trainer("training").is_dir()
    assert paths.folder.stat().st_mode & 0o077 == 0


def test_what_is_discarded_is_out_of_reach_at_once_and_gone_later(storage):
    storage.prepare("default", "job")
    paths = storage.paths("default", "job")
    (paths.storage / "deep" / "er").mkdir(parents=True)
    (paths.storage / "deep" / "er" / "file").write_text("x")
    (paths.storage / "deep").chmod(0o500)
    storage.reclaim(paths)
    storage.reclaim(paths)
    assert not paths.storage.exists()
    assert not paths.scratch.exists()
    assert paths.runs.exists()
    storage.empty_trash()
    assert list(storage.trash.iterdir()) == []


def test_a_link_in_a_job_s_storage_leads_to_nothing_being_deleted(storage, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    storage.prepare("default", "job")
    paths = storage.paths("default", "job")
    (paths.storage / "link").symlink_to(outside)
    storage.reclaim(paths)
    paths.storage.symlink_to(outside)
    storage.reclaim(paths)
    storage.empty_trash()
    assert (outside / "precious").read_text() == "x"


def test_a_size_is_what_is_on_disk_links_not_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(os.urandom(100_000))
    (tmp_path / "a" / "link").symlink_to("/usr")
    (tmp_path / "a" / "loop").symlink_to(".")
    assert 100_000 <= size_of(tmp_path) <= 200_000
    assert size_of(tmp_path / "nowhere") == 0


@pytest.mark.parametrize("left", [False, True])
def test_the_scratch_of_a_start_goes_with_it(storage, left):
    storage.prepare("default", "job")
    paths = storage.paths("default", "job")
    storage.prepare_run(RUN, {})
    if left:
        (paths.scratch / "task-1" / "file").touch()
    storage.drop_scratch(paths, "task-1")
    storage.drop_scratch(paths, "task-1")
    assert list(paths.scratch.iterdir()) == []


def test_a_scratch_folder_has_a_name_that_leaves_room_for_sockets(storage, tmp_path):
    run = StepRun("w" * 50, "j" * 50, "attempt-1", "training", f"task-{'0f' * 16}")
    paths = storage.of_run(run)
    storage.prepare_run(run, {})
    scratch = paths.scratch / run.token
    name = name_shortly(tmp_path, scratch)
    assert name_shortly(tmp_path, scratch) == name
    assert len(str(name)) - len(str(tmp_path)) < 20
    (name / "listener").touch()
    assert (scratch / "listener").exists()
    storage.drop_scratch(paths, run.token)
    assert not name.is_symlink()
