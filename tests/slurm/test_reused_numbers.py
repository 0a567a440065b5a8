"""A number that another job had: real records of a real accounting, while the controller is away."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.slurm.lab import RealSlurm, until

import nemo_gym
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.slurm import SlurmExecutor
from nemo_runs.clock import utc_text
from nemo_slurm import calls
from nemo_slurm.cluster import Cluster
from nemo_slurm.hosts import LocalHost

pytestmark = pytest.mark.slurm

SHELL = Path(nemo_gym.__file__).parent / "shell"
CLEAN = Path(calls.__file__).with_name("clean_environment.sh")


def folder_of_a_run(base: Path, *, later: float = 0.0) -> Path:
    """The folder of a benchmark that was submitted now, or so many seconds later."""
    stamp = utc_text(time.time() + later)[:19].replace("-", "").replace(":", "")
    job_dir = base / f"gym-job-{stamp}Z-{os.urandom(3).hex()}" / "gpqa"
    (job_dir / "links").mkdir(parents=True)
    (job_dir / "job.sh").write_text("#!/bin/bash\n#SBATCH --job-name=gym-gpqa\ntrue\n")
    os.utime(job_dir / "job.sh", (time.time() + later,) * 2)
    return job_dir


def ended(slurm: RealSlurm, *options: str, lives: int = 3) -> str:
    """A job that ended well and that accounting knows."""
    # one that ends at once has no name in accounting
    script = slurm.script(f"#!/bin/bash\nsleep {lives}\n", "ends.sh")
    done = subprocess.run(
        ["sbatch", "--parsable", "--output=/dev/null", *options, script],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    number = done.stdout.strip()

    def recorded() -> bool:
        said = ["sacct", "-n", "-X", "-P", "-o", "State,End", "-j", number]
        row = subprocess.run(said, capture_output=True, text=True, check=False, timeout=60).stdout
        return row.startswith("COMPLETED|20")

    until(recorded)
    return number


def ended_with_a_name(slurm: RealSlurm, *options: str) -> str:
    """The same, of a job whose name accounting was told: on a busy machine that takes a longer one."""
    for lives in (3, 12, 48):
        number = ended(slurm, *options, lives=lives)
        named = ["sacct", "-X", "-n", "-P", "-j", number, "-o", "JobName"]
        name = subprocess.run(named, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        if name != "allocation":
            return number
    raise AssertionError(f"accounting never heard the name of job {number}")


def seen(number: str, job_dir: Path) -> JobObservation:
    """As another command sees it."""
    return SlurmExecutor(Cluster(LocalHost())).observe([JobRef(number, job_dir)])[number]


def seen_by_its_successor(number: str, job_dir: Path) -> str:
    """As the job script of the next job of the chain sees it."""
    names = {"GYM_JOB": job_dir.parent.name, "GYM_BENCHMARK": "gpqa", "GYM_JOB_DIR": str(job_dir)}
    parts = [
        SHELL / "header.sh",
        CLEAN,
        SHELL / "slurm_steps.sh",
        SHELL / "scheduler_slurm.sh",
        SHELL / "slurm_queue.sh",
    ]
    lines = [
        *(f"{name}='{value}'" for name, value in names.items()),
        *(f". '{part}'" for part in parts),
        "gym_identify",
        f'gym_state_of {number}; gym_elapsed_of {number}; echo "$gym_state/${{gym_elapsed%% *}}"',
    ]
    environ = os.environ | {"SLURM_JOB_ID": "999999", "SLURM_JOB_NAME": "gym-gpqa"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=job_dir, env=environ, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    return done.stdout.strip()


STRANGERS = {
    "another's words": ["--comment=my own words", "--job-name=gym-gpqa"],
    "another name": ["--job-name=train"],
    "another run's token": ["--comment=gym-job-20200101T000000Z-aaaaaa/gpqa/1", "--job-name=gym-gpqa"],
    "no comment, submitted before our sbatch": ["--job-name=gym-gpqa"],
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_record_of_another_job_with_the_number_says_nothing(
    slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stranger: str
) -> None:
    number = ended(slurm, *STRANGERS[stranger])
    job_dir = folder_of_a_run(tmp_path, later=3600 if "before" in stranger else 0)
    # whether the controller still holds it or has forgotten it
    found = seen(number, job_dir)
    assert (found.state, found.silent) == (JobState.UNKNOWN, False)
    assert seen_by_its_successor(number, job_dir) == "/"
    slurm.client(monkeypatch, SlurmctldPort="1", MessageTimeout="1")
    found = seen(number, job_dir)
    assert (found.state, found.silent) == (JobState.UNKNOWN, True), found
    monkeypatch.setenv("NEMO_GYM_SLURM_SECONDS", "5")
    assert seen_by_its_successor(number, job_dir) == "/"


@pytest.mark.parametrize("kept", [True, False])
def test_a_record_of_our_own_is_believed_while_the_controller_is_away(
    slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    job_dir = folder_of_a_run(tmp_path)
    token = f"{job_dir.parent.name}/gpqa/1"
    if kept:
        number = ended(slurm, "--job-name=gym-gpqa", f"--comment={token}")
    else:  # then its name proves it
        number = ended_with_a_name(slurm, "--job-name=gym-gpqa")
    slurm.client(monkeypatch, SlurmctldPort="1", MessageTimeout="1")
    found = seen(number, job_dir)
    assert (found.state, found.word, found.proven) == (JobState.SUCCEEDED, "COMPLETED", True)
    monkeypatch.setenv("NEMO_GYM_SLURM_SECONDS", "5")
    assert seen_by_its_successor(number, job_dir) == "COMPLETED/0"


def test_a_job_that_ends_at_once_is_our_own_though_accounting_was_not_told_its_name(
    slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_dir = folder_of_a_run(tmp_path)
    token = f"{job_dir.parent.name}/gpqa/1"
    number = ended(slurm, "--job-name=gym-gpqa", f"--comment={token}", lives=0)
    slurm.client(monkeypatch, SlurmctldPort="1", MessageTimeout="1")
    found = seen(number, job_dir)
    assert (found.state, found.proven) == (JobState.SUCCEEDED, True)
    monkeypatch.setenv("NEMO_GYM_SLURM_SECONDS", "5")
    assert seen_by_its_successor(number, job_dir) == "COMPLETED/0"
