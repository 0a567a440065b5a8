"""Chains on the real Slurm, through every end that a job can have, to results that are complete and verified."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.slurm.chains import QUICK, Chain, Chains, together
from tests.slurm.lab import RealSlurm, until
from tests.slurm.test_slurm_executor import Student

from nemo_gym.decide import Budget
from nemo_gym.job_paths import JobPaths
from nemo_runs.secret_refs import Reference
from nemo_slurm.cluster import Job

pytestmark = [pytest.mark.slurm, pytest.mark.e2e, pytest.mark.slow]

MEMORY_CGROUP = "/sys/fs/cgroup/memory/cgroup.procs"


def chains_of(slurm: RealSlurm, patch: pytest.MonkeyPatch) -> Chains:
    for name, value in QUICK.items():
        patch.setenv(name, value)
    return Chains(slurm)


@pytest.fixture
def chains(slurm: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> Chains:
    return chains_of(slurm, monkeypatch)


@pytest.fixture
def chains_alone(slurm_alone: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> Chains:
    return chains_of(slurm_alone, monkeypatch)


def end_of(chain: Chain, job: str) -> str:
    """The final state of a job for good."""
    seen = chain.slurm.settled(Job(job), timeout=60)
    assert seen.state is not None
    return seen.state.name


# Time


def test_a_run_outlives_its_time_limits_and_ends_at_its_cap(chains: Chains) -> None:
    def limit() -> None:
        chain = chains.start("limit")
        chain.times_out(chain.at_work(1))
        chain.completed(links=2)
        assert end_of(chain, chain.first) == "TIMEOUT"
        assert chain.decision(chain.jobs()[1])[:2] == [
            "go_on running",
            "the job before ended as TIMEOUT (the time limit was reached)",
        ]

    def early() -> None:
        chain = chains.start("early")
        job = chain.at_work(1)
        subprocess.run(["scancel", "--batch", "--signal=USR1", job], check=True)
        chain.completed(links=2)
        assert end_of(chain, job) == "FAILED"
        assert chain.link(job).end.read_text().splitlines()[0] == "drained 75 walltime"
        assert chain.decision(chain.jobs()[1])[1] == "the job before drained ahead of its time limit"

    def cap() -> None:
        chain = chains.start("cap", links=3, budget=Budget(max_walltime=1))
        job = chain.at_work(1)
        successor = chain.waiting()
        chain.times_out(job)
        chain.over()
        assert chain.decision(successor)[0] == "stop stopped"
        assert end_of(chain, successor) == "COMPLETED"
        assert (chain.jobs(), len(chain.events("driver_started"))) == ([job], 1)

    def requeued() -> None:
        chain = chains.start("requeued", links=3, extra={"requeue": True})
        job = chain.at_work(1)
        successor = chain.waiting()
        chain.slurm.control("requeue", job)
        assert chain.at_work(2) == job
        assert chain.waiting() == successor
        assert chain.decision(job, 1)[1] == "the scheduler put this job back into its queue"
        chain.times_out(job)
        chain.completed(links=2)
        assert (chain.jobs(), len(chain.events("successor_queued"))) == ([job, successor], 2)

    together(limit, early, cap, requeued)


# Failures


def test_failures_are_retried_until_the_budget_is_spent(chains: Chains) -> None:
    def once() -> None:
        chain = chains.start("once")
        job = chain.at_work(1)
        (chain.paths.job_dir / f"{job}.die").touch()
        chain.completed(links=2, retries=1)
        assert end_of(chain, job) == "FAILED"

    def memory() -> None:
        if not os.access(MEMORY_CGROUP, os.W_OK):
            return
        chain = chains.start("memory", words="grow-when=$SLURM_JOB_ID.grow")
        job = chain.at_work(1)
        (chain.paths.job_dir / f"{job}.grow").touch()
        chain.completed(links=2, retries=1)
        assert end_of(chain, job) == "OUT_OF_MEMORY"

    def always() -> None:
        chain = chains.start("always", words="die-after=0")
        chain.over()
        assert (len(chain.jobs()), len(chain.events("service_started"))) == (4, 4), chain.said()
        last = chain.events("job_ended")[-1]["job_id"]
        assert last not in chain.jobs()
        assert chain.decision(last)[0] == "fail failed"
        assert chain.decision(last)[1].endswith("and max_retries (3) are used up")
        assert end_of(chain, last) == "FAILED"

    together(once, memory, always)


def test_what_no_retry_can_help_ends_a_chain_at_once_with_its_reason(chains: Chains) -> None:
    def hopeless(name: str, reason: str, **changes: object) -> None:
        chain = chains.start(name, run_changes=changes, env={"WRONG": Reference("lit", "wrong")})
        chain.over()
        assert chain.jobs() == [chain.first], chain.said()
        assert f"no retry can help: {reason}" in chain.link(chain.first).end.read_text()
        assert end_of(chain, chain.first) == "FAILED"
        assert len(chain.events("successor_dropped")) == 1

    together(
        lambda: hopeless("config", "the run configuration: limit", limit="many"),
        lambda: hopeless("data", "input_jsonl_fpath: there is no file", input_jsonl_fpath="/gone.jsonl"),
        lambda: hopeless("credentials", "policy_api_key: ", policy_api_key="host:WRONG"),
    )


# Ends that are final


def test_nothing_of_a_finished_run_stays_queued_and_a_successor_that_comes_all_the_same_does_nothing(
    chains: Chains,
) -> None:
    def finished(name: str, *, kill: bool) -> None:
        chain = chains.start(name, links=1, compute={"kill_on_invalid_dep": kill})
        job = chain.at_work(1)
        chain.completed(links=1)
        dropped = chain.events("successor_dropped")
        assert [end_of(chain, job), *(end_of(chain, event["successor"]) for event in dropped)] == [
            "COMPLETED",
            "CANCELLED",
        ]
        for path in (None, chain.link(job).collected):
            if path:
                path.unlink()
                chain.link(job).end.unlink()
            late = by_hand(chain, job)
            assert end_of(chain, late) == "COMPLETED"
            witness = "the scheduler says COMPLETED of the job before" if path else "every rollout is recorded"
            assert chain.decision(late)[:2] == ["stop succeeded", witness]
            (chain.paths.job_dir / "links" / f"{job}.0" / "successor").unlink()
        assert (chain.jobs(), len(chain.events("service_started"))) == ([job], 1)

    together(lambda: finished("kill", kill=True), lambda: finished("linger", kill=False))


def by_hand(chain: Chain, predecessor: str) -> str:
    """Queue a successor as a person might."""
    words = ["sbatch", "--parsable", f"--comment={chain.prefix}{chain.name}/9", str(chain.paths.script)]
    done = subprocess.run(
        [*words, predecessor], capture_output=True, text=True, check=True, cwd=chain.paths.job_dir
    )
    return done.stdout.strip()


def test_after_a_cancellation_no_successor_does_any_work(chains: Chains, tmp_path: Path) -> None:
    def bare() -> None:
        chain = chains.start("bare")
        job = chain.at_work(1)
        successor = chain.waiting()
        subprocess.run(["scancel", job], check=True)
        chain.over()
        assert [end_of(chain, job), end_of(chain, successor)] == ["CANCELLED", "COMPLETED"]
        assert chain.decision(successor)[:2] == ["stop cancelled", "the job before was cancelled by user 0"]
        assert (chain.jobs(), len(chain.events("service_started"))) == ([job], 1)

    def ours() -> None:
        student = Student(tmp_path, chains.slurm)
        config = student.config()
        config["driver"]["benchmarks"]["sums"]["resumable"] = True
        config["services"]["policy"]["command"] += " answers=2"
        prefix = chains.slurm.prefix
        record = student.submit(config)
        chains.slurm.prefix = prefix
        [entry] = record["benchmarks"]
        chain = Chain(
            chains.slurm, "ours", JobPaths(Path(entry["job_dir"])), f"{record['gym_job_id']}/", 4, entry["job_id"]
        )
        job = chain.at_work(1)
        chain.waiting()
        verified = json.loads(student.gym("job", "verify", record["gym_job_id"], "--json", status=1).stdout)
        assert (verified["benchmarks"][0]["present"], verified["benchmarks"][0]["missing"]) == (2, 2)
        student.gym("job", "cancel", record["gym_job_id"], "sums")
        assert chain.queued() == []
        assert (chain.jobs(), len(chain.events("service_started"))) == ([job], 1)
        late = by_hand(chain, job)
        assert end_of(chain, late) == "COMPLETED"
        assert chain.decision(late)[:2] == ["stop cancelled", "the chain was cancelled"]
        assert len(chain.events("service_started")) == 1

    together(bare, ours)


# Successors


def test_a_successor_that_vanished_or_was_refused_is_queued_in_time(chains: Chains) -> None:
    def removed() -> None:
        chain = chains.start("removed")
        job = chain.at_work(1)
        gone = chain.waiting()
        subprocess.run(["scancel", gone], check=True)
        successor = chain.waiting(gone)
        chain.times_out(job)
        chain.completed(links=2)
        assert chain.jobs() == [job, successor]
        assert chain.events("successor_failed")[0]["error"] == f"job {gone} is no longer in the queue"

    def refused() -> None:
        name = f"{chains.slurm.prefix}full"
        chains.slurm.control("create", f"PartitionName={name}", "Nodes=ALL", "State=DOWN")
        try:
            chain = chains.start("refused", partition=name)
            # takes no job any more, and starts those that wait
            chains.slurm.control("update", f"PartitionName={name}", "State=DRAIN")
            job = chain.at_work(1)
            assert [row.id for row in chain.queued()] == [job]
            assert chain.link(job).queue_error.exists()
            assert "Chain will NOT continue on failure" in chain.said()
            chains.slurm.control("update", f"PartitionName={name}", "State=UP")
            chain.waiting()
            assert not chain.link(job).queue_error.exists()
            chain.times_out(job)
            chain.completed(links=2)
        finally:
            until(lambda: not chain.queued())
            chains.slurm.control("delete", f"PartitionName={name}")

    together(removed, refused)
