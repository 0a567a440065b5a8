"""`nemo profiles check` on the real Slurm, on this machine and over ssh: no job comes of it."""

import os
import sys

import pytest

from nemo_helix_server import settings
from nemo_helix_server.executors import dispatch
from nemo_helix_server.service.profile_checks import ProfileChecks
from nemo_helix_server.service.profiles import Profiles

pytestmark = pytest.mark.slurm


class Checked:
    """A service with one profile of the cluster."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "root"

    def __call__(self, provider="cpu", **config):
        given = {"root": str(self.root), "python": sys.executable, "account": "lab", "partition": "main"}
        given |= {"time": "00:05:00", "device": "cpu", "engines": {"own": sys.executable}, **config}
        profile = {"provider": provider, "profile": "lab", "backend": "slurm", "config": given}
        values = {
            "data_dir": self.folder / "data",
            "jobs": {"executors": [profile], "leases": {"folder": self.folder / "leases"}},
        }
        loaded = settings.load(None, {"HOME": str(self.folder)}, values)
        loaded.data_dir.mkdir(exist_ok=True)
        executors = dispatch.of_service(loaded)
        try:
            found = ProfileChecks(Profiles(loaded.jobs), executors).check(provider, "lab")
        finally:
            executors.close()
        self.ok = found["ok"]
        return {one["about"]: (one["verdict"], one["text"]) for one in found["findings"]}


@pytest.fixture
def checked(slurm, tmp_path):
    return Checked(tmp_path)


@pytest.mark.parametrize("provider", ["cpu", "gpu", "gpu_distributed"])
def test_a_profile_that_works_passes_and_makes_no_job(checked, slurm, provider):
    found = checked(provider)
    assert checked.ok, found
    assert {name: level for name, (level, _) in found.items() if level not in {"ok", "unknown"}} == {
        "service's files": "warning"  # this machine is service and cluster
    }
    assert found["partition"][1].startswith("main is up")
    assert "to start at" in found["sbatch --test-only"][1]
    assert checked.root.stat().st_mode & 0o777 == 0o700
    assert os.listdir(checked.root) == ["code"]
    assert slurm.cluster.queue_of("not-submitted") == []


def test_over_ssh_the_service_s_keys_are_seen_to_lie_where_jobs_read_them(checked):
    found = checked(host="lab")
    assert found["connection"][1].startswith("lab, as ")
    level, text = found.pop("service's files")
    assert (level, "is seen on lab too, and so by jobs" in text) == ("problem", True)
    assert {name for name, (level, _) in found.items() if level == "problem"} == set()
    assert found["program"][0] == "ok"


def test_what_the_cluster_does_not_give_is_said_with_the_key(checked):
    found = checked(partition="gpus", account="nobody", time="9-00")
    assert not checked.ok
    assert found["partition"][1].startswith("config.partition: there is no partition gpus; there is main, ")
    assert "may not use nobody" in found["account"][1]
    assert found["sbatch --test-only"][0] == "problem"
    assert "change the profile" in found["sbatch --test-only"][1]


def test_more_gpus_than_a_node_has_are_refused_by_the_scheduler_itself(checked):
    found = checked("gpu", options={"gpus": 400})
    assert found["sbatch --test-only"][0] == "problem"
    assert found["storage"][0] == "ok"


def test_a_host_that_cannot_be_reached_is_the_only_finding(checked):
    found = checked(host="nowhere.invalid")
    assert list(found) == ["connection"]
    assert found["connection"][0] == "problem"
    assert "config.host: cannot reach 'nowhere.invalid'" in found["connection"][1]
