"""Ends that only a real Slurm can bring about, and daemons that are really away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.slurm.lab import SCRIPTS, WAITS, RealSlurm, until

from nemo_slurm.cluster import JobLook, SlurmJob, Witness
from nemo_slurm.errors import NoSuchPathError, NotReachableError

MEMORY_CGROUP = "/sys/fs/cgroup/memory/cgroup.procs"

pytestmark = pytest.mark.slurm


def submit(slurm: RealSlurm, name: str, *options: str, head: str = "") -> SlurmJob:
    script = slurm.script(WAITS.format(head=head))
    flag = str(slurm.folder / name)
    words = ["--output=/dev/null", *options]
    return slurm.cluster.submit(
        script, [flag], token=slurm.prefix + name, folder=str(slurm.folder), options=words
    ).job


def name_of(seen: JobLook) -> str:
    assert seen.state is not None
    return seen.state.name


def daemon(slurm: RealSlurm, name: str) -> int:
    return int((slurm.lab.folder / "run" / f"{name}.pid").read_text())


def bring_up() -> None:
    subprocess.run([SCRIPTS / "up.sh"], check=True, capture_output=True, timeout=120)


def test_without_requeue_a_job_that_loses_its_node_is_preempted_for_good(
    slurm_alone: RealSlurm,
) -> None:
    low = submit(slurm_alone, "low", "--partition=low", "--exclusive", "--nodelist=n4")
    slurm_alone.wait(low, "RUNNING")
    high = submit(slurm_alone, "high", "--partition=high", "--exclusive", "--nodelist=n4")
    assert name_of(slurm_alone.settled(low)) == "PREEMPTED"
    slurm_alone.wait(high, "RUNNING")


def test_a_preempted_job_that_is_requeued_is_never_settled_in_between(slurm_alone: RealSlurm) -> None:
    low = submit(slurm_alone, "low", "--partition=lowq", "--requeue", "--exclusive", "--nodelist=n4")
    slurm_alone.wait(low, "RUNNING")
    high = submit(slurm_alone, "high", "--partition=high", "--exclusive", "--nodelist=n4")
    looks: list[JobLook] = []

    def waits_again() -> bool:
        looks.append(slurm_alone.cluster.observe([low])[low])
        return bool(looks[-1].restarts) and name_of(looks[-1]) == "PENDING"

    until(waits_again)
    assert not any(look.settled for look in looks)
    slurm_alone.cluster.cancel([high])
    slurm_alone.wait(low, "RUNNING")


def test_a_job_whose_node_is_taken_down_ends_as_node_fail(slurm_alone: RealSlurm) -> None:
    job = submit(slurm_alone, "x", "--nodelist=n3", "--no-requeue")
    slurm_alone.wait(job, "RUNNING")
    slurm_alone.control("update", "nodename=n3", "state=down", "reason=test")
    assert name_of(slurm_alone.settled(job)) == "NODE_FAIL"


@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK), reason="no memory cgroup (v1)"
)
def test_a_job_that_uses_too_much_memory_ends_as_out_of_memory(slurm: RealSlurm) -> None:
    script = slurm.script(f"#!/bin/bash\nexec {sys.executable} -c 'x = bytearray(300 << 20)'\n")
    options = ["--mem=64M", "--output=/dev/null"]
    job = slurm.cluster.submit(script, token=f"{slurm.prefix}oom", options=options).job
    assert name_of(slurm.settled(job)) == "OUT_OF_MEMORY"


def test_a_controller_that_was_stopped_is_silence_and_nothing_is_lost(
    slurm_alone: RealSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(slurm_alone, "x")
    slurm_alone.wait(job, "RUNNING")
    slurm_alone.client(monkeypatch, MessageTimeout="1")
    # not SIGKILL: what a controller has not saved yet, a job of the last seconds, would be lost with it
    os.kill(daemon(slurm_alone, "slurmctld"), signal.SIGTERM)
    until(lambda: not Path(f"/proc/{daemon(slurm_alone, 'slurmctld')}/exe").exists())
    try:
        look = slurm_alone.cluster.observe([job])
        assert look.controller is not None
        assert not look[job].settled
        with pytest.raises(NotReachableError):
            slurm_alone.cluster.submit(slurm_alone.script("#!/bin/sh\n"), token=f"{slurm_alone.prefix}y")
    finally:
        bring_up()
    assert slurm_alone.wait(job, "RUNNING").source is Witness.CONTROLLER
    (slurm_alone.folder / "x").write_text("0")
    assert name_of(slurm_alone.settled(job)) == "COMPLETED"
    assert slurm_alone.cluster.find(f"{slurm_alone.prefix}y") is None


def test_an_end_while_accounting_is_away_is_known_and_accounted_for_later(
    slurm_alone: RealSlurm,
) -> None:
    job = submit(slurm_alone, "x")
    slurm_alone.wait(job, "RUNNING")
    os.kill(daemon(slurm_alone, "slurmdbd"), signal.SIGKILL)
    try:
        (slurm_alone.folder / "x").write_text("5")
        ended = slurm_alone.settled(job)
        assert (name_of(ended), ended.exit_status, ended.runs) == ("FAILED", 5, ())
        assert "database" in (slurm_alone.cluster.observe([job]).accounting or "")
    finally:
        bring_up()

    def runs() -> list[str]:
        return [run.state.name for run in slurm_alone.cluster.observe([job], history=True)[job].runs]

    until(lambda: runs() == ["FAILED"])


def test_a_job_forgotten_by_the_controller_is_told_by_accounting(slurm: RealSlurm) -> None:
    job = submit(slurm, "x")
    slurm.wait(job, "RUNNING")
    (slurm.folder / "x").write_text("7")
    slurm.settled(job)

    def forgotten() -> JobLook | None:
        seen = slurm.cluster.observe([job])[job]
        return seen if seen.source is Witness.ACCOUNTING else None

    seen = until(forgotten, timeout=120, every=1)
    assert seen is not None
    assert (name_of(seen), seen.settled, seen.exit_status, len(seen.runs)) == ("FAILED", True, 7, 1)
    assert slurm.cluster.show(job) == {}


def test_a_job_inherits_what_is_meant_for_it_and_nothing_of_the_job_it_was_submitted_from(
    slurm: RealSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "SLURM_CPU_BIND",
        "SLURM_MEM_PER_NODE",
        "SLURM_JOB_ID",
        "SBATCH_PARTITION",
        "PMIX_RANK",
        "OMPI_X",
    ):
        monkeypatch.setenv(name, "13")
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")
    monkeypatch.setenv("MINE", "a b")
    seen = slurm.folder / "environment"
    script = slurm.script(f"#!/bin/bash\nenv -0 >'{seen}.new'; mv '{seen}.new' '{seen}'\n")
    secret = "canary'\n with $odd"
    job = slurm.cluster.submit(
        script, token=f"{slurm.prefix}env", options=["--output=/dev/null"], env={"TOKEN": secret}
    ).job
    until(seen.exists)
    found = dict(item.split("=", 1) for item in seen.read_text().split("\0") if item)
    assert (found["TOKEN"], found["MINE"], found["SLURM_JOB_ID"]) == (secret, "a b", job.id)
    assert found["SLURM_CONF"] == slurm.lab.environ["SLURM_CONF"]
    assert (
        not {"SLURM_CPU_BIND", "SBATCH_PARTITION", "PMIX_RANK", "OMPI_X", "SLURM_TIME_FORMAT"} & found.keys()
    )
    assert found.get("SLURM_MEM_PER_NODE") != "13"
    assert "canary" not in slurm.control("-o", "show", "job", job.id)


def test_an_id_is_found_through_a_wrapper_that_talks(
    slurm: RealSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = slurm.folder / "bin" / "sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/bash\necho 'Welcome. Your budget: 12345'\n/usr/bin/sbatch \"$@\"; s=$?\n"
        "echo 'Have fun' 2024\nexit $s\n"
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    job = submit(slurm, "x")
    assert [row.id for row in slurm.cluster.queue_of(slurm.prefix)] == [job.id]


def test_a_folder_that_cannot_be_entered_submits_nothing(slurm: RealSlurm, tmp_path: Path) -> None:
    with pytest.raises(NoSuchPathError, match="cannot be entered"):
        slurm.cluster.submit(
            slurm.script("#!/bin/sh\n"), token=f"{slurm.prefix}x", folder=str(tmp_path / "nowhere")
        )
