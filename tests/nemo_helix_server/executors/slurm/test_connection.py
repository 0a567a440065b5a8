"""The clusters of a service: their connections, and what is said where our program cannot run."""

import sys
from pathlib import PurePosixPath

import pytest
from tests.small_disk import fill, small_disk

from nemo_helix_server.executors.slurm.bundle import ClusterSources
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    ClusterConnections,
    UnusableClusterError,
)
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.storage import run_files
from nemo_slurm.errors import StorageFullError

_PYENV = """echo "pyenv: python2.7: command not found

The 'python2.7' command exists in these Python versions:
  2.7.18

Note: See 'pyenv help global' for tips on allowing both
      Python versions to be found at the same time." >&2; exit 127"""


def connection(root, **settings):
    given = SlurmSettings(root=root, **{"python": sys.executable, **settings})
    return ClusterConnection(ClusterAddress.of(given), ClusterSources.of_service())


@pytest.mark.services
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"setup": ("exit 3",)},
            "config.setup: its lines end the shell on this machine with status 3,",
        ),
        ({"setup": ("exec true",)}, "config.setup: its lines end the shell on this machine with status 0"),
        (
            {"python": "{bin}/python2.7"},
            "needs there: it said 'pyenv: python2.7: command not found'; na",
        ),
        (
            {"python": "false"},
            "false on this machine cannot run what Baton needs there: it ended with status 1",
        ),
        ({"python": "false", "setup": ("true",)}, "config.python: false on this machine cannot run"),
    ],
)
def test_what_keeps_our_program_from_running_is_said_by_its_key(tmp_path, settings, said):
    (tmp_path / "python2.7").write_text(f"#!/bin/bash\n{_PYENV}\n")
    (tmp_path / "python2.7").chmod(0o755)
    if "python" in settings:
        settings = {**settings, "python": settings["python"].format(bin=tmp_path)}
    with pytest.raises(UnusableClusterError) as error:
        connection(tmp_path / "shared", **settings).prepare([PurePosixPath(tmp_path / "shared" / "jobs")])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.services
def test_a_root_without_space_for_our_program_is_one_sentence(tmp_path):
    with small_disk(tmp_path / "small", megabytes=1) as small:
        fill(small)
        with pytest.raises(StorageFullError) as error:
            connection(small / "shared").prepare([PurePosixPath(small / "shared" / "jobs")])
    assert str(error.value) == f"no space is left at {small}/shared/code on this machine"


@pytest.mark.services
def test_a_request_reaches_a_run_on_a_full_disk_and_without_its_space_there_is_a_clear_answer(tmp_path):
    with small_disk(tmp_path / "small", megabytes=16) as small:
        run = small / "shared" / "jobs" / "j" / "runs" / "task-1"
        there = connection(small / "shared")
        there.prepare([PurePosixPath(run)])
        run_files.reserve(run)
        fill(small)
        there.deliver(PurePosixPath(run), run_files.STOP, b'{"grace_seconds": 3, "stacks": false}')
        assert run_files.read_stop(run) == (3.0, False)
        with pytest.raises(StorageFullError, match=f"no space is left at {small}/shared on this machine"):
            there.deliver(PurePosixPath(run), run_files.STOP, b'{"grace_seconds": 1, "stacks": false}')
        assert run_files.read_stop(run) == (3.0, False)


def test_what_needs_the_same_host_shares_its_connection_whatever_its_folder_and_interpreter():
    connections = ClusterConnections()
    first = connections.of(ClusterAddress("lab", "/scratch/a", "python3"))
    second = connections.of(ClusterAddress("lab", "/scratch/b", "python3.11", ("module load python",)))
    other = connections.of(ClusterAddress("lab2", "/scratch/a", "python3"))
    assert first.host is second.host
    assert first.host is not other.host
    connections.close()
