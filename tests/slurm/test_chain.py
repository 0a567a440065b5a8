"""Chains on the real Slurm, through every end that a job can have, to complete and verified results."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.slurm.chains import QUICK, Chain, Chains, together
from tests.slurm.lab import RealSlurm, away, until
from tests.slurm.test_slurm_executor import Student

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.run_end import Requester
from nemo_gym.errors import EXIT_INCOMPLETE
from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_runs.processes import trees
from nemo_runs.secret_refs import Reference
from nemo_slurm.cluster import SlurmJob

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
    seen = chain.slurm.settled(SlurmJob(job), timeout=60)
    assert seen.state is not None
    return seen.state.name


# Time


def drained_in_time(link: LinkPaths) -> bool:
    """Whether a run left an end marker that says that it drained ahead of its time limit, with work left."""
    if not link.end.exists():
        return False
    outcome, status, who = link.end.read_text().splitlines()[0].split(maxsplit=2)
    return int(status) == EXIT_INCOMPLETE and Requester.of(outcome, who) is Requester.EARLY


def test_a_run_outlives_its_time_limits_and_ends_at_its_cap(chains: Chains) -> None:
    def limit() -> None:
        chain = chains.start("limit")
        chain.times_out(chain.at_work(1))
        chain.completed(links=2)
        assert end_of(chain, chain.first) == "TIMEOUT"
        goes_on, why = chain.decision(chain.jobs()[1])[:2]
        assert goes_on == "go_on running"
        # the signal that comes ahead of the limit may still have been in time: the job's end marker says so
        assert why == (
            "the job before drained ahead of its time limit"
            if drained_in_time(chain.link(chain.first))
            else "the job before ended as TIMEOUT (the time limit was reached)"
        )

    def early() -> None:
        chain = chains.start("early")
        job = chain.at_work(1)
        # the limit is near now: Slurm sends the signal that the script's own lines asked for
        chain.slurm.control("update", f"JobId={job}", "TimeLimit=1")
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
            decided = ["stop succeeded", "every rollout is recorded"]
            if path:
                said = "the scheduler says COMPLETED of the job before"
                decided = ["stop failed", f"{said}, but nothing proves that every rollout is recorded"]
            assert chain.decision(late)[:2] == decided
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
        assert chain.decision(successor)[0] == "stop cancelled"
        assert chain.decision(successor)[1].startswith("the job before was cancelled")
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
            chains.slurm,
            "ours",
            JobPaths(Path(entry["job_dir"])),
            f"{record['gym_job_id']}/",
            4,
            entry["job_id"],
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


def test_a_successor_that_vanished_or_was_refused_is_queued_in_time(
    chains: Chains, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from the login node; the way to it, an ssh without a port to give, is the lab's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    to_login = f"exec /usr/bin/ssh -F '{os.environ['NEMO_GYM_SSH_CONFIG']}' -T -- lab \"$word\""
    (folder / "ssh").write_text(
        f"#!/bin/sh\necho \"$SLURM_JOB_ID\" >>'{folder}/called'\nfor word; do :; done\n{to_login}\n"
    )
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

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
            chain.until(lambda: not chain.link(job).queue_error.exists())
            chain.times_out(job)
            chain.completed(links=2)
        finally:
            subprocess.run(["scancel", f"--partition={name}"], check=True)
            until(lambda: not chains.slurm.cluster.queue_of(f"{chains.slurm.prefix}refused"))
            chains.slurm.control("delete", f"PartitionName={name}")

    def from_the_login_node() -> None:
        chain = chains.start("login", compute={"queue_from": "login"})
        job = chain.at_work(1)
        chain.waiting()
        chain.times_out(job)
        chain.completed(links=2)
        assert (folder / "called").read_text().split()[0] == job

    together(removed, refused, from_the_login_node)


# Nodes and preemption: the cluster is this test's alone


def preempt(chain: Chain, job: str, node: str) -> None:
    """Let a job of higher priority take the node of a chain, and give it back."""
    slurm = chain.slurm
    script = slurm.script("#!/bin/bash\nexec sleep 600\n", f"high-{chain.name}.sh")
    options = ["--output=/dev/null", "--partition=high", "--exclusive", f"--nodelist={node}"]
    high = slurm.cluster.submit(
        script, token=f"{slurm.prefix}high-{chain.name}", options=options, again=False
    )
    chain.gone(job)
    slurm.wait(high.job, "RUNNING", timeout=60)
    slurm.cluster.cancel([high.job])


def test_preemptions_and_lost_nodes_cost_no_retry_no_attempt_and_no_rollout(
    chains_alone: Chains, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains, slurm = chains_alone, chains_alone.slurm

    def three_in_a_row(name: str, node: str, words: str, margin: float) -> None:
        """The service dies of SIGTERM at once; or it does not care, and the driver is gone first."""
        changes = {"drain_margin_s": margin}
        chain = chains.start(name, links=4, partition="low", node=node, words=words, run_changes=changes)
        for number in (1, 2, 3):
            preempt(chain, chain.at_work(number), node)
        chain.completed(links=4)
        jobs = chain.jobs()
        assert [end_of(chain, job) for job in jobs] == ["PREEMPTED"] * 3 + ["COMPLETED"]
        assert {chain.decision(job)[1] for job in jobs[1:]} == {
            "the job before ended as PREEMPTED (a job of higher priority took the nodes)"
        }
        assert chain.events("service_died") == []
        assert bool(chain.failures()) == (name == "service-first")

    def into_the_queue() -> None:
        extra = {"requeue": True}
        chain = chains.start("requeue", links=4, partition="lowq", node="n3", extra=extra)
        job = chain.at_work(1)
        successor = chain.waiting()
        preempt(chain, job, "n3")
        assert chain.at_work(2) == job
        take_down(chain, job)
        assert chain.at_work(3) == job
        assert chain.waiting() == successor
        chain.times_out(job)
        chain.completed(links=2)
        assert chain.jobs() == [job, successor]
        assert len({event["successor"] for event in chain.events("successor_queued")}) == 2

    def take_down(chain: Chain, job: str) -> None:
        slurm.control("update", "nodename=n3", "state=down", "reason=test")
        chain.gone(job)
        # it returns by itself, as soon as its slurmd has said that it is there
        subprocess.run(
            ["scontrol", "update", "nodename=n3", "state=resume"], check=False, capture_output=True
        )

    def node_down() -> None:
        chain = chains.start("down", node="n3")
        job = chain.at_work(1)
        slurm.control("update", "nodename=n3", "state=down", "reason=test")
        chain.gone(job)
        # it returns by itself, as soon as its slurmd has said that it is there
        subprocess.run(
            ["scontrol", "update", "nodename=n3", "state=resume"], check=False, capture_output=True
        )
        chain.completed(links=2)
        assert end_of(chain, job) == "NODE_FAIL"

    def one_after_the_other() -> None:
        into_the_queue()
        node_down()

    zombie = lost_with_its_node(chains, monkeypatch)
    first = zombie.at_work(1)
    together(
        lambda: three_in_a_row("service-first", "n1", "", 30.0),
        lambda: three_in_a_row("driver-first", "n2", "deaf", 0.0),
        one_after_the_other,
        lambda: goes_on_writing(chains, zombie, first),
    )


def lost_with_its_node(chains: Chains, patch: pytest.MonkeyPatch) -> Chain:
    """A chain whose job script does not notice in time that another job goes on after it."""
    # the emulated nodes are one machine: each gets a name of its own, or its processes could be seen from all
    program = chains.slurm.folder / "gym-of-a-node"
    named = f'hostname "$SLURMD_NODENAME"; exec "{chains.program}" "$@"'
    program.write_text(f"#!/bin/sh\nexec unshare --uts sh -c '{named}' sh \"$@\"\n")
    program.chmod(0o755)
    with patch.context() as slow:
        slow.setenv("NEMO_GYM_CHAIN_SECONDS", "600")
        return chains.start("zombie", node="n4", gym=program, words="open-when=$SLURM_JOB_ID.open", links=3)


def goes_on_writing(chains: Chains, chain: Chain, job: str) -> None:
    """A node is lost with its slurmd, and what ran there goes on writing into the same results."""
    slurm = chains.slurm
    slurm.control("update", f"JobId={chain.waiting()}", "ReqNodeList=n2")
    marker = f"{chain.prefix}{chain.name}/{job}.0/driver"
    [driver] = trees.marked("NEMO_GYM_STEP", marker)
    rows = chain.paths.rollouts.output
    with rows.open("ab") as late, away(slurm, "n4", signal.SIGKILL):
        os.kill(driver, signal.SIGSTOP)
        successor = chain.at_work(2)
        assert (successor == job, end_of(chain, job)) == (False, "NODE_FAIL")
        # the driver wakes up with answers for questions that the other one has asked again
        (chain.paths.job_dir / f"{job}.open").touch()
        time.sleep(0.5)
        os.kill(driver, signal.SIGCONT)
        late.write(rows.read_bytes())
        late.flush()
        log = chain.paths.log("driver", job)
        chain.until(lambda: "has taken this output over" in log.read_text())
        [old] = rows.parent.glob("rollouts.jsonl.superseded-*")
        assert (os.stat(old).st_ino, rows.stat().st_ino == os.stat(old).st_ino) == (
            os.fstat(late.fileno()).st_ino,
            False,
        )
        slurm.control("update", f"JobId={chain.waiting()}", "ReqNodeList=n2")
        chain.times_out(successor)
        chain.completed(links=3)


# Daemons that are away


def state_in_accounting(job: str) -> str:
    """What ``sacct`` says of a job, empty while it says nothing."""
    words = ["sacct", "-nPX", "-o", "State", "-j", job]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def test_a_chain_goes_on_without_accounting_and_adds_the_time_when_it_is_known(chains_alone: Chains) -> None:
    slurm = chains_alone.slurm
    known, unseen = chains_alone.start("known", links=3), chains_alone.start("unseen", links=3)
    first, other = known.at_work(1), unseen.at_work(1)
    successor = unseen.waiting()
    slurm.control("hold", successor)
    with away(slurm, "slurmdbd", signal.SIGKILL):
        known.times_out(first)
        unseen.times_out(other)
        second = known.at_work(2)
        assert "scheduler=TIMEOUT source=scontrol" in known.decision(second)[2]
        # until the controller has forgotten the job: then nobody can tell how it ended
        unseen.until(lambda: slurm.cluster.show(SlurmJob(other)) == {})
        slurm.control("release", successor)
        assert unseen.at_work(2) == successor
        assert unseen.decision(successor)[:2] == ["go_on running", "nobody saw how the job before ended"]
        assert "scheduler= source= " in unseen.decision(successor)[2]
        assert "looks=6 retries=0" in unseen.decision(successor)[2]
    # the last links find in accounting what was not known before; it needs a moment to catch up
    until(lambda: [state_in_accounting(job) for job in (first, other)] == ["TIMEOUT"] * 2, timeout=60)
    known.times_out(second)
    unseen.times_out(successor)
    for chain in (known, unseen):
        chain.completed(links=3)


def test_a_controller_that_is_away_for_a_while_costs_nothing(
    chains_alone: Chains, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chains end meanwhile, with and without Slurm's help against a dead successor; one is at work."""
    monkeypatch.setenv("NEMO_GYM_SLURM_SECONDS", "2")
    slurm = chains_alone.slurm
    words = "open-when=open"
    ending = [
        chains_alone.start(f"ends-{kill}", words=words, compute={"kill_on_invalid_dep": kill})
        for kill in (True, False)
    ]
    working = chains_alone.start("works")
    for chain in (*ending, working):
        chain.at_work(1)
        chain.waiting()
    with away(slurm, "slurmctld", signal.SIGTERM):
        for chain in ending:
            (chain.paths.job_dir / "open").touch()
        for chain in ending:
            chain.until(lambda chain=chain: chain.events("driver_ended"))
        time.sleep(3)
    for chain in ending:
        chain.completed(links=1)
        assert len(chain.events("service_started")) == 1
    working.times_out(working.first)
    working.completed(links=2)
    assert len(working.events("successor_queued")) == 2


def test_a_chain_runs_what_was_submitted_although_somebody_edits_its_folder(chains: Chains) -> None:
    chain = chains.start("edited", links=3)
    first = chain.at_work(1)
    script = chain.paths.script
    script.write_text(script.read_text() + "\nexit 9\n")
    chain.paths.run_config.write_text("not: what was submitted\n")
    chain.times_out(first)
    second = chain.at_work(2)
    # the first one's successor had its script already; the second one queues the third from its own
    chain.times_out(second)
    chain.completed(links=3)
    assert "is not as it was queued; the successor runs what was queued" in chain.said()
