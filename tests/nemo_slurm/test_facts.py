"""What a cluster says of itself, through the fake cluster's programs."""

import os

import pytest
from tests.nemo_gym.orchestration.submit.test_check import SLURM
from tests.nemo_gym.orchestration.submit_files import changed

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_gym.orchestration.submit import preflight
from nemo_slurm.cluster import Cluster
from nemo_slurm.errors import NotReachableError, SchedulerRefusedError
from nemo_slurm.facts import accepts, gather
from nemo_slurm.hosts import LocalHost
from nemo_slurm.testing import FakeCluster, Faults

pytestmark = pytest.mark.services


@pytest.fixture
def fake(tmp_path, monkeypatch):
    made = FakeCluster(tmp_path / "cluster")
    monkeypatch.setenv("PATH", f"{made.path}:{os.environ['PATH']}")
    return made


def test_a_controller_that_is_away_is_asked_one_question_and_nothing_is_submitted(fake):
    fake.set(Faults(controller_down=True))
    with pytest.raises(NotReachableError, match="the scheduler on this machine did not answer"):
        gather(LocalHost())
    assert fake.calls() == {"scontrol": 1}
    config = SubmitConfig.model_validate(changed(SLURM))
    with pytest.raises(NotReachableError, match="nothing was submitted, try again when it answers"):
        preflight.refuse_cheaply(config, LocalHost())


def test_accounting_that_does_not_answer_is_asked_once_and_is_no_obstacle(fake):
    fake.set(Faults(accounting="down"))
    facts = gather(LocalHost())
    assert facts.associations is None
    assert "Problem talking to the database" in facts.accounting
    assert fake.calls().get("sacctmgr", 0) == 0


def test_jobs_are_counted_by_account_whatever_a_site_prints_around_them(fake, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n")
    for number in range(3):
        fake.submit(str(script), token=f"t/{number}", options=["--account=physics"])
    fake.submit(str(script), token="t/9", options=["--account=biology"])
    with fake.faults() as faults:
        faults.banner = "Welcome to the cluster\n12 jobs run\n"
    facts = gather(LocalHost())
    assert facts.queued == {"physics": 3, "biology": 1}
    assert [partition.name for partition in facts.partitions] == ["main"]


BANNER = "*****\n* Welcome *\n*****\n"


@pytest.mark.parametrize(
    ("said", "refused", "text"),
    [
        (
            f"{BANNER}sbatch: billed to physics\n\nsbatch: Job 7 to start at noon",
            False,
            "billed to physics; Job 7 to start at noon",
        ),
        (f"{BANNER}allocation failure: Too many", True, "allocation failure: Too many; change x."),
        (
            f"{BANNER}sbatch: error: no partition\nallocation failure: Invalid",
            True,
            "sbatch: error: no partition allocation failure: Invalid; change x.",
        ),
        ("lua: ask for\n a project", True, "lua: ask for a project; change x."),
    ],
)
def test_what_a_site_prints_around_an_answer_is_no_part_of_it(monkeypatch, said, refused, text):
    def test(_cluster, _path):
        if refused:
            raise SchedulerRefusedError(["sbatch"], 1, said)
        return said

    monkeypatch.setattr(Cluster, "test", test)
    assert accepts(LocalHost(), "#!/bin/sh\n", about="x", change="x").text == text


def test_a_config_error_stays_one(fake):
    config = SubmitConfig.model_validate(changed(SLURM))
    with pytest.raises(ConfigError, match="there is no partition batch; there is main"):
        preflight.refuse_cheaply(config, LocalHost())
