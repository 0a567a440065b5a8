"""Folders on a cluster that others could change: nothing of ours is run from them, and no step is started."""

import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from tests.nemo_helix_server.executors.slurm.scheduler_world import Place, run_of

from nemo_helix_server.executors.base import NeverPossibleError, ResourceNeeds
from nemo_helix_server.executors.slurm import job_script, starts
from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnection
from nemo_helix_server.executors.slurm.ownership import OthersMayWriteError, require_ours, why_not_ours
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_slurm.hosts import LocalHost


@pytest.mark.parametrize(
    ("owner", "mode", "said"),
    [
        (7, 0o700, None),
        (7, 0o755, None),
        (7, 0o770, "config.root: others may write to /r on 'alps': chmod 700 /r"),
        (7, 0o702, "config.root: others may write to /r on 'alps': chmod 700 /r"),
        (7, 0o1777, "config.root: others may write to /r on 'alps': chmod 700 /r"),
        (0, 0o700, "config.root: /r on 'alps' belongs to user 0, who could replace what jobs run; name a"),
    ],
)
def test_a_folder_is_ours_when_nobody_else_may_write_to_it(owner, mode, said):
    why = why_not_ours(PurePosixPath("/r"), "'alps'", owner=owner, user=7, mode=mode)
    assert why is None if said is None else why.startswith(said)


def test_what_is_not_there_yet_is_nobody_elses_and_a_link_is_what_it_leads_to(tmp_path):
    host, root = LocalHost(), tmp_path / "a root"
    require_ours(host, [PurePosixPath(root), PurePosixPath(root / "code")])
    root.mkdir()
    root.chmod(0o777)
    (tmp_path / "link").symlink_to(root)
    for folder in (root, tmp_path / "link"):
        with pytest.raises(OthersMayWriteError, match="others may write to"):
            require_ours(host, [PurePosixPath(tmp_path / "none"), PurePosixPath(folder)])


@pytest.mark.services
@pytest.mark.parametrize("open_folder", ["", "code", "code/*"])
def test_nothing_of_ours_runs_from_a_folder_that_others_have_been_given(tmp_path, open_folder):
    settings = SlurmSettings(root=tmp_path / "root", python=sys.executable)
    connection = ClusterConnection(ClusterAddress.of(settings), ClusterSources.of_service())
    made = PurePosixPath(tmp_path / "root" / "jobs" / "j")
    connection.prepare([made])
    (folder,) = (tmp_path / "root").glob(open_folder) if open_folder else [tmp_path / "root"]
    folder.chmod(0o777)
    with pytest.raises(OthersMayWriteError, match=f"^config.root: others may write to {folder} on this m"):
        connection.prepare([made])
    folder.chmod(0o700)
    connection.prepare([made])


def test_a_start_is_refused_with_the_words_of_the_check(tmp_path, monkeypatch):
    place = Place(tmp_path)

    def open_to_all(_self, _folders, _run=None):
        raise OthersMayWriteError("config.root: others may write to /r on this machine: chmod 700 /r")

    monkeypatch.setattr(starts.ClusterConnection, "prepare", open_to_all)
    with pytest.raises(NeverPossibleError, match=r"^config.root: others may write to /r on this machine: ch"):
        place.start(run_of(1))
    assert place.fake.jobs() == []


def test_the_log_of_the_batch_script_is_for_its_owner_before_anything_is_printed(tmp_path):
    log = tmp_path / "slurm.log"
    log.touch(mode=0o644)
    log.chmod(0o644)
    text = job_script.render(
        SlurmSettings(root=tmp_path, python="true", setup=('echo "is $(stat -c %a slurm.log)"',)),
        ResourceNeeds(),
        name="n",
        run=PurePosixPath(tmp_path),
        code=PurePosixPath(tmp_path),
    )
    said = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (said.stdout, said.stderr) == ("is 600\n", "")
    assert Path(log).stat().st_mode & 0o777 == 0o600
