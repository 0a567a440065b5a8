"""The chain's prologue, ticks and epilogue in real bash, against a scheduler made of files."""

import itertools
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.local_jobs import until

import nemo_gym
import nemo_slurm
from nemo_gym.chain.budget import Budget
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.plan import job_script
from nemo_gym.orchestration.plan.sealed_files import SHELL_PARTS, folder_name, with_own_digest
from nemo_gym.orchestration.plan.values import JobPlan
from nemo_gym.rollouts.collect.exit_report import ExitReport
from nemo_runs.durable.journal import read_journal

pytestmark = pytest.mark.services

SHELL = Path(nemo_gym.__file__).parent / "shell"
WORK = 'echo worked >>"$CLUSTER/work"; '
ROW = "echo '{}' >>artifacts/rollouts.jsonl; "
UNTIL_TOLD = "until [ -e $CLUSTER/end ]; do sleep 0.05; done; exit 1"
UNTIL_STOPPED = (
    'trap "exit 75" TERM; : >"$CLUSTER/hears"; '
    'until [ -e "$NEMO_GYM_DRAIN_FILE" ]; do sleep 0.05; done; exit 75'
)
COMPLETE = ExitReport("complete", 0, 5, 5, 5, None)
DRAINED = ExitReport("drained", 75, 5, 3, 3, None)


class World:
    """One benchmark's folder, a scheduler beside it, and jobs that a test starts when the scheduler would."""

    def __init__(self, folder):
        self.cluster, self.job_dir = folder / "cluster", folder / "run" / "b"
        self.cluster.mkdir()
        self.paths = JobPaths(self.job_dir)
        self.parts = folder / "parts"
        for path in (self.parts, self.paths.logs, self.paths.artifacts, self.job_dir / "links"):
            path.mkdir(parents=True)
        sources = [SHELL / f"{part}.sh" for part in SHELL_PARTS]
        sources += [Path(__file__).with_name("scheduler_stub.sh")]
        sources += [Path(nemo_slurm.__file__).with_name("states.tsv")]
        for source in sources:
            (self.parts / source.name).write_bytes(source.read_bytes())
        (self.parts / "run.yaml").write_text("{}\n")
        self.gym = folder / "gym"
        self.gym.write_text('#!/bin/bash\n[ "$1" = eval ] || { echo gym 9; exit; }\neval "$DRIVE"\n')
        self.gym.chmod(0o755)
        self.started = []
        self.limits(Budget())

    def limits(self, budget, *, walltime=None):
        """Write the job script with these limits."""
        self.plan = JobPlan(
            gym_job_id="gym-job-x",
            benchmark="b",
            job_dir=self.job_dir,
            services=[],
            policy=None,
            policy_host="localhost",
            run={},
            prepare=None,
            command=None,
            gym=self.gym,
            walltime=walltime,
            budget=budget,
        )
        self.seal(self.plan)

    def seal(self, plan):
        """Write the script and, beside it, the parts as they are now."""
        files = {part.name: part.read_bytes() for part in self.parts.iterdir()}
        self.sealed = self.paths.sealed / folder_name(files)
        self.sealed.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (self.sealed / name).write_bytes(content)
        text = job_script.render_job(plan, redacted=False, sealed=files)
        self.paths.script.write_text(with_own_digest(text.replace("scheduler_local", "scheduler_stub")))

    def start(self, job, before="", *, restart=0, drive="exit 1", **environ):
        """Let a job run; ``drive`` is what its driver does after it has said that it worked."""
        env = {**os.environ, "CLUSTER": str(self.cluster), "STUB_ID": str(job), "STUB_RESTART": str(restart)}
        env |= {"DRIVE": WORK + drive, "NEMO_GYM_LOOKUP_SECONDS": "0", "NEMO_GYM_CHAIN_SECONDS": "0"}
        env["NEMO_GYM_TICK_SECONDS"] = "0.02"
        before = before if isinstance(before, list) else [str(before)] if before else []
        words = ["bash", str(self.paths.script), *before]
        pipe = subprocess.PIPE
        job = subprocess.Popen(words, env={**env, **environ}, stdout=pipe, stderr=pipe, text=True)
        self.started.append(job)
        return job

    def run(self, job, before="", **changes):
        """Let a job run to its end; answers its exit status and what it said."""
        started = self.start(job, before, **changes)
        out, said = started.communicate(timeout=60)
        assert out == ""
        self.set(f"elapsed-{job}", f"{changes.get('restart', 0)} 60", more=True)
        return started.returncode, said

    def set(self, name, *lines, more=False):
        """What the scheduler says from now on."""
        path = self.cluster / name
        before = path.read_text() if more and path.exists() else ""
        path.write_text(before + "".join(f"{line}\n" for line in lines))

    def lines(self, name):
        path = self.cluster / name
        return path.read_text().split() if path.exists() else []

    @property
    def worked(self):
        """How many drivers ran."""
        return len(self.lines("work"))

    def link(self, job, restart=0):
        return self.paths.link(str(job), restart)

    def decision(self, job, restart=0):
        return self.link(job, restart).decision.read_text().splitlines()

    def dot(self, name):
        return (self.job_dir / name).read_text().split()

    def events(self, name):
        return [event for event in read_journal(self.paths.events) if event["event"] == name]


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    for job in made.started:
        if job.poll() is None:
            job.terminate()
            job.communicate(timeout=60)


def says(collected, form=ExitReport.lines):
    """Shell of a driver that records its rows, says this at its end and ends with its status."""
    word = f"echo '{form(collected)}' >\"$NEMO_GYM_LINK/collected\""
    return f"{ROW * collected.new}{word}; exit {collected.status}"


# The first job, and the order of things


def test_the_first_job_starts_and_its_successor_waits_before_any_work_is_done(world):
    status, said = world.run(7, drive='cp "$CLUSTER/queue" "$CLUSTER/queue-then"; exit 3')
    assert (status, world.worked) == (3, 1)
    assert world.lines("queue-then") == ["101"]
    assert world.decision(7)[:2] == ["go_on running", "the first job of its chain"]
    assert "gym job: going on: the first job of its chain\n" in said
    assert world.link(7).predecessor.read_text() == "\n"
    assert world.link(7).queued.read_text() == "101;main\n"
    assert (world.link(7).folder / "gym").read_text() == "gym 9\n"
    assert world.lines("looks") == []
    story = [event["event"] for event in read_journal(world.paths.events)]
    assert story == [
        "job_started",
        "job_decided",
        "successor_queued",
        "driver_started",
        "driver_ended",
        "job_ended",
    ]
    assert world.events("successor_queued")[0]["successor"] == "101"


def test_the_dot_files_hold_ids_seconds_and_retries(world):
    world.run(7)
    world.set("state-7", "TIMEOUT")
    world.run(101, 7)
    world.set("state-101", "FAILED")
    world.run(102, 101)
    assert (world.job_dir / ".gym_job_chain").read_text() == "7\n101\n102\n"
    assert (world.job_dir / ".gym_accumulated_walltime").read_text() == "120\n"
    assert (world.job_dir / ".gym_infra_retries").read_text() == "1\n"
    assert (world.link(102).folder / "accounted").read_text() == "101.0 60\n"
    assert [event["action"] for event in world.events("job_decided")] == ["go_on"] * 3
    assert "scheduler=FAILED source=stub" in world.events("job_decided")[2]["evidence"]


# The rows of the table


@pytest.mark.parametrize(
    ("state", "status", "words", "retries"),
    [
        ("COMPLETED", 0, "stop failed", 0),
        ("CANCELLED", 0, "stop cancelled", 0),
        ("CANCELLED by 1000", 0, "stop cancelled", 0),
        ("CANCELLED+", 0, "stop cancelled", 0),
        ("TIMEOUT", 1, "go_on running", 0),
        ("PREEMPTED", 1, "go_on running", 0),
        ("NODE_FAIL", 1, "go_on running", 0),
        ("FAILED", 1, "go_on running", 1),
        ("OUT_OF_MEMORY", 1, "go_on running", 1),
        ("OUT_OF_ME+", 1, "go_on running", 1),
        ("HIBERNATED", 1, "go_on running", 1),
        ("RUNNING", 1, "go_on running", 0),
        ("PENDING", 1, "go_on running", 0),
    ],
)
def test_what_the_next_job_does_with_the_previous_jobs_state(world, state, status, words, retries):
    world.run(7, drive=f"{ROW} exit 1")
    world.set("state-7", state)
    ended, said = world.run(101, 7)
    goes_on = words == "go_on running"
    assert (ended, world.decision(101)[0]) == (status, words), said
    assert world.worked == 1 + goes_on
    assert world.lines("queue") == (["101", "102"] if goes_on else ["101"])
    assert world.dot(".gym_infra_retries") == [str(retries)]
    assert world.dot(".gym_job_chain") == ["7", *(["101"] if goes_on else [])]
    assert world.link(101).retry.exists() == bool(retries)
    assert ("nobody has heard of the state 'HIBERNATED'" in said) == (state == "HIBERNATED")
    if not goes_on:
        assert world.decision(101)[1] in said
        assert world.link(101).end.read_text() == f"decided 0 none\n{world.decision(101)[1]}\n"


def test_a_state_that_is_not_visible_is_looked_up_for_about_a_minute_and_costs_no_retry(world):
    world.run(7)
    assert world.run(101, 7)[0] == 1
    assert world.lines("looks") == ["7"] * 6
    assert world.decision(101)[1] == "nobody saw how the job before ended"
    assert world.dot(".gym_infra_retries") == ["0"]
    assert "NEMO_GYM_LOOKUP_SECONDS:=10" in (SHELL / "chain.sh").read_text()


@pytest.mark.parametrize("lag", [["", "", "PREEMPTED"], ["RUNNING", "COMPLETING", "FAILED"]])
def test_a_record_that_is_late_or_old_is_waited_for(world, lag):
    world.run(7)
    world.set("state-7", *lag)
    world.run(101, 7)
    assert len(world.lines("looks")) == 3
    assert lag[-1] in world.decision(101)[1]


def test_failures_are_retried_until_max_retries_is_exceeded(world):
    before, status, said = "", 0, ""
    for job in range(100, 105):
        status, said = world.run(job, before)
        before = job
        world.set(f"state-{job}", "FAILED")
    assert world.worked == 4
    assert status == 1
    assert world.decision(104)[0] == "fail failed"
    assert "max_retries (3) are used up" in said
    assert len(world.lines("queue")) == 4


def test_no_retry_may_be_allowed_and_a_resubmission_may_raise_the_limit(world):
    world.limits(Budget(max_retries=0))
    world.run(7)
    world.set("state-7", "FAILED")
    assert world.run(101, 7)[0] == 1
    assert world.worked == 1
    (world.job_dir / "resubmits" / "1").mkdir(parents=True)
    (world.job_dir / "resubmits" / "1" / "max_retries").write_text("9\n")
    world.run(102)
    world.set("state-102", "FAILED")
    world.run(103, 102)
    assert world.worked == 3


@pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "NODE_FAIL"])
def test_the_walltime_cap_counts_finished_jobs_and_stops_with_status_0(world, state):
    world.limits(Budget(max_walltime=120))
    statuses = []
    for job, before in ((1, ""), (2, 1), (3, 2)):
        statuses.append(world.run(job, before, drive="exit 9")[0])
        world.set(f"state-{job}", state)
    assert statuses == [9, 9, 0]
    assert world.decision(3)[0] == "stop stopped"
    assert "max_walltime is 00:02:00" in world.decision(3)[1]
    assert world.dot(".gym_accumulated_walltime") == ["120"]
    assert len(world.lines("queue")) == 2


def test_the_walltime_cap_is_not_looked_at_after_a_failure(world):
    world.limits(Budget(max_walltime=60))
    world.run(1)
    world.set("state-1", "FAILED")
    world.run(2, 1)
    assert world.worked == 2


# The job's own last word


@pytest.mark.parametrize("form", [ExitReport.lines, ExitReport.line], ids=["lines", "of an earlier gym"])
def test_completeness_outranks_the_scheduler_and_nothing_stays_queued(world, form):
    status, _ = world.run(7, drive=says(COMPLETE, form))
    assert (status, world.lines("queue")) == (0, [])
    assert [event["successor"] for event in world.events("successor_dropped")] == ["101"]
    world.set("state-7", "FAILED")
    assert world.run(101, 7)[0] == 0
    assert world.decision(101)[:2] == ["stop succeeded", "every rollout is recorded"]
    assert world.lines("looks") == []


def test_a_status_of_0_without_proof_is_no_success_and_the_chain_goes_on(world):
    status, said = world.run(7, drive="exit 0")
    assert status == 1
    assert "nothing proves that every rollout is recorded" in said
    assert world.lines("queue") == ["101"]


def test_a_driver_that_is_killed_after_it_said_complete_has_completed(world):
    drive = says(COMPLETE).replace("exit 0", "kill -KILL $$")
    assert world.run(7, drive=drive)[0] == 0
    assert world.lines("queue") == []


WRONG = "run.limit: x is not a number."


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (ExitReport("failed", 1, 0, 0, 0, WRONG), f"no retry can help: {WRONG}"),
        (
            ExitReport("exhausted", 76, 5, 4, 4, None),
            "rollouts are missing and none of them may be tried again",
        ),
    ],
)
def test_a_failure_that_no_retry_can_help_ends_the_chain_with_its_reason_at_once(world, last, reason):
    status, _ = world.run(7, drive=says(last))
    assert (status, world.lines("queue")) == (last.status, [])
    assert world.link(7).end.read_text().splitlines()[1] == reason
    world.set("state-7", "FAILED")
    assert world.run(101, 7)[0] == 1
    assert world.decision(101)[:2] == ["fail failed", reason]
    assert world.dot(".gym_infra_retries") == ["0"]


def signalled(world, number):
    """Run job 7 and send it a signal while its driver works; answers its end marker's first line."""
    job = world.start(7, drive=UNTIL_STOPPED)
    until((world.cluster / "hears").exists)
    job.send_signal(number)
    job.communicate(timeout=60)
    return world.link(7).end.read_text().splitlines()[0]


def test_an_early_signal_is_our_own_and_the_next_job_goes_on_uncounted(world):
    assert signalled(world, signal.SIGUSR1) == "drained 75 walltime"
    assert world.link(7).drain.read_text() == "walltime\n"
    world.set("state-7", "FAILED")
    world.run(101, 7)
    assert world.decision(101)[1] == "the job before drained ahead of its time limit"
    assert world.dot(".gym_infra_retries") == ["0"]


@pytest.mark.parametrize(
    ("state", "words"),
    [("CANCELLED by 0", "stop cancelled"), ("PREEMPTED", "go_on running"), ("TIMEOUT", "go_on running")],
)
def test_after_sigterm_only_the_scheduler_knows_the_cause(world, state, words):
    assert signalled(world, signal.SIGTERM) == "stopped 75 signal"
    world.set("state-7", state)
    world.run(101, 7)
    assert world.decision(101)[0] == words
    assert world.dot(".gym_infra_retries") == ["0"]


# Queueing


def test_a_refused_successor_is_warned_about_and_asked_for_again_while_the_job_works(world):
    world.set("refuse", "QOSMaxSubmitJobPerUserLimit")
    job = world.start(7, drive=UNTIL_TOLD)
    until((world.link(7).folder / "queue_error").exists)
    until(lambda: world.worked)
    time.sleep(0.5)
    assert not world.link(7).queued.exists()
    (world.cluster / "refuse").unlink()
    until(world.link(7).queued.exists)
    world.set("end")
    _, said = job.communicate(timeout=60)
    why = "the successor could not be queued (QOSMaxSubmitJobPerUserLimit)"
    assert said.count(f"warning: {why}. Chain will NOT continue on failure.\n") == 1
    assert world.lines("queue") == ["101"]
    assert not (world.link(7).folder / "queue_error").exists()
    assert len(world.events("successor_failed")) == 1


def test_a_job_whose_successor_is_refused_to_the_end_carries_on_and_just_has_none(world):
    world.set("refuse", "no")
    status, said = world.run(7, drive=says(COMPLETE))
    assert status == 0
    assert "Chain will NOT continue on failure" in said
    assert (world.link(7).folder / "queue_error").read_text() == "no\n"


def test_a_successor_that_vanished_is_replaced_and_what_nobody_can_tell_is_left_alone(world):
    job = world.start(7, drive=UNTIL_TOLD)
    until(lambda: world.worked)
    world.set("blind")
    time.sleep(0.3)
    world.set("queue")
    time.sleep(0.5)
    assert world.lines("queue") == []
    (world.cluster / "blind").unlink()
    until(lambda: world.lines("queue") == ["102"])
    world.set("end")
    assert "no longer in the queue" in job.communicate(timeout=60)[1]


def test_a_successor_that_vanished_in_the_last_moment_is_replaced_before_the_end(world):
    world.run(7, drive=': >"$CLUSTER/queue"; exit 1', NEMO_GYM_CHAIN_SECONDS="600")
    assert world.lines("queue") == ["102"]


def test_a_job_that_is_stopped_while_it_looks_queues_its_successor_first(world):
    world.run(7)
    job = world.start(101, 7, NEMO_GYM_LOOKUP_SECONDS="60")
    until(lambda: world.lines("looks"))
    time.sleep(0.3)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=60)
    assert (job.returncode, world.worked) == (75, 1)
    assert world.lines("queue") == ["101", "102"]


def test_of_two_successors_of_one_job_the_first_goes_on_and_the_other_ends(world):
    world.run(7)
    world.set("state-7", "TIMEOUT")
    assert world.run(101, 7)[0] == 1
    status, said = world.run(900, 7)
    assert (status, world.worked) == (0, 2)
    assert "job 101 goes on after job 7 already" in said
    assert world.decision(900)[0] == "stop running"
    assert world.dot(".gym_job_chain") == ["7", "101"]


# A second run of the same job


def test_a_requeued_job_continues_without_a_second_successor_and_counts_nothing_twice(world):
    world.run(7)
    world.set("state-7", "FAILED")
    world.run(101, 7)
    world.set("state-101", "RUNNING")
    world.run(101, 7, restart=1)
    assert world.worked == 3
    assert world.lines("queue") == ["101", "102"]
    assert world.link(101, 1).queued.read_text() == "102;main\n"
    assert world.decision(101, 1)[1] == "the scheduler put this job back into its queue"
    assert world.dot(".gym_job_chain") == ["7", "101"]
    assert world.dot(".gym_infra_retries") == ["1"]
    assert world.dot(".gym_accumulated_walltime") == ["120"]
    world.set("state-101", "TIMEOUT")
    world.run(102, 101)
    assert world.dot(".gym_accumulated_walltime") == ["180"]


def test_a_job_killed_before_it_decided_is_decided_again_and_a_retry_that_it_counted_stays_one(world):
    world.run(7)
    world.set("state-7", "FAILED")
    world.run(101, 7)
    world.link(101).decision.unlink()
    world.run(101, 7, restart=1)
    assert "FAILED" in world.decision(101, 1)[1]
    assert world.dot(".gym_infra_retries") == ["1"]


def test_a_requeued_job_replaces_a_successor_that_is_gone(world):
    world.run(7)
    world.set("queue")
    world.run(7, restart=1)
    assert world.lines("queue") == ["102"]


def test_a_requeued_job_that_is_complete_ends_and_drops_what_it_had_queued(world):
    world.run(7, drive=says(DRAINED))
    world.link(7).collected.write_text(COMPLETE.lines() + "\n")
    assert world.run(7, restart=1)[0] == 0
    assert (world.worked, world.lines("queue")) == (1, [])


def test_a_job_that_had_stopped_stays_stopped_when_it_is_requeued(world):
    world.run(7)
    world.set("state-7", "CANCELLED")
    world.run(101, 7)
    assert world.run(101, 7, restart=1)[0] == 0
    assert world.decision(101, 1)[0] == "stop cancelled"
    assert "the job before was cancelled" in world.decision(101, 1)[1]


def test_a_scheduler_that_does_not_count_restarts_gets_another_folder_for_each_run(world):
    world.run(7)
    world.run(7)
    assert world.link(7, 1).started.exists()
    assert world.decision(7, 1)[1] == "the scheduler put this job back into its queue"


# Time and counters


def test_time_that_is_not_known_yet_is_added_when_it_becomes_known(world):
    for job, before in ((1, ""), (2, 1), (3, 2)):
        world.run(job, before)
        world.set(f"state-{job}", "TIMEOUT")
        if job < 3:
            (world.cluster / f"elapsed-{job}").unlink()
    assert world.dot(".gym_accumulated_walltime") == ["0"]
    world.set("elapsed-1", "0 100", "1 7")
    world.set("elapsed-2", "0 200")
    world.run(4, 3)
    assert world.dot(".gym_accumulated_walltime") == [str(100 + 7 + 200 + 60)]
    world.set("state-4", "TIMEOUT")
    world.run(5, 4)
    assert world.dot(".gym_accumulated_walltime") == [str(100 + 7 + 200 + 60 + 60)]


def test_where_nobody_tells_the_time_what_a_job_saw_itself_counts_towards_the_cap(world):
    world.limits(Budget(max_walltime=50))
    world.run(1)
    (world.cluster / "elapsed-1").unlink()
    assert int((world.link(1).folder / "alive").read_text()) < 10
    (world.link(1).folder / "alive").write_text("55\n")
    world.set("state-1", "TIMEOUT")
    world.run(2, 1)
    assert world.decision(2)[0] == "stop stopped"
    assert world.dot(".gym_accumulated_walltime") == ["0"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".gym_accumulated_walltime", ""),
        (".gym_accumulated_walltime", "many\n"),
        (".gym_accumulated_walltime", "-5\n"),
        (".gym_accumulated_walltime", "1\n2\n"),
        (".gym_accumulated_walltime", "\0\0\0\n"),
        (".gym_accumulated_walltime", "61\n"),
        (".gym_infra_retries", ""),
        (".gym_infra_retries", "two\n"),
        (".gym_infra_retries", "7\n"),
        (".gym_job_chain", "7\n\n"),
        (".gym_job_chain", "7\n\0\0\n"),
        (".gym_job_chain", "7 8\n"),
        ("links/7.0/accounted", "7.0\n"),
        ("links/7.0/accounted", ""),
        ("links/7.0/accounted", "6.0 x\n"),
    ],
)
def test_a_damaged_count_is_a_clear_error_and_not_zero(world, name, content):
    world.run(7)
    world.set("state-7", "TIMEOUT")
    (world.job_dir / name).write_text(content)
    status, said = world.run(101, 7)
    assert (status, world.worked) == (1, 1)
    assert world.decision(101)[0] == "fail failed"
    assert f"{world.job_dir / name} is damaged" in said
    assert world.lines("queue") == ["101"]


def test_a_count_that_was_not_written_any_more_is_put_right(world):
    world.run(7)
    world.set("state-7", "FAILED")
    world.run(101, 7)
    (world.job_dir / ".gym_infra_retries").unlink()
    (world.job_dir / ".gym_accumulated_walltime").write_text("0\n")
    world.set("state-101", "TIMEOUT")
    world.run(102, 101)
    assert (world.dot(".gym_infra_retries"), world.dot(".gym_accumulated_walltime")) == (["1"], ["120"])


def test_a_word_that_is_no_job_id_is_an_error(world):
    assert world.run(101, "7; rm")[0] == 1
    assert "is not a job id" in world.decision(101)[1]


# Progress


def test_a_chain_that_records_nothing_new_burns_out_whatever_the_scheduler_says(world):
    world.limits(Budget(max_retries=100, max_links_without_progress=2))
    states = itertools.cycle(["TIMEOUT", "FAILED", ""])
    before = ""
    for job in (1, 2, 3):
        row = ROW if job == 1 else "printf torn >>artifacts/rollouts.jsonl; "
        world.run(job, before, drive=f"{row}exit 1")
        world.set(f"state-{job}", next(states))
        before = job
    assert world.run(4, 3)[0] == 1
    assert world.worked == 3
    assert "2 jobs in a row recorded nothing new" in world.decision(4)[1]


@pytest.mark.parametrize(("limit", "works"), [(1, 3), (None, 4)])
def test_a_new_row_or_a_collectors_word_is_progress_and_null_means_never(world, limit, works):
    world.limits(Budget(max_links_without_progress=limit))
    nothing = ExitReport("failed", 1, 5, 3, 0, None)
    for job, drive in enumerate([f"{ROW}exit 1", says(DRAINED), says(nothing), "exit 1"], start=1):
        world.run(job, job - 1 or "", drive=drive)
        world.set(f"state-{job}", "TIMEOUT")
    assert world.worked == works


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_max_retries_grants_as_many_as_it_says(world, retries):
    """A job whose own script is broken: the first job and as many more as were granted."""
    world.limits(Budget(max_retries=retries))
    for job in range(1, retries + 3):
        status, _ = world.run(job, job - 1 or "", drive="exit 3")
        world.set(f"state-{job}", "FAILED")
    assert (status, world.worked) == (1, retries + 1)
    assert f"max_retries ({retries}) are used up" in world.decision(retries + 2)[1]


def test_a_chain_that_is_preempted_again_and_again_resumes_while_no_limit_is_set(world):
    for job in range(1, 11):
        world.run(job, job - 1 or "", drive="exit 143")
        world.set(f"state-{job}", ["PREEMPTED", "TIMEOUT", "NODE_FAIL"][job % 3])
        assert world.decision(job)[0] == "go_on running"
    assert world.worked == 10


def test_a_chain_that_may_not_resume_ends_before_its_second_job_starts_anything(world):
    world.limits(Budget(resumes=False))
    world.run(1, drive="exit 1")
    world.set("state-1", "FAILED")
    assert world.run(2, 1, drive=f"{ROW}exit 1")[0] == 1  # nothing was recorded: a fresh start
    world.set("state-2", "PREEMPTED")
    assert world.run(3, 2)[0] == 1
    assert world.worked == 2
    reason = world.decision(3)[1]
    assert reason.startswith("the job before ended as PREEMPTED")
    assert "resume_from_cache is false, and rollouts are recorded" in reason
    (world.job_dir / "resubmits" / "1").mkdir(parents=True)
    world.run(5)
    world.set("state-5", "FAILED")
    world.run(6, 5)
    assert world.worked == 4  # queued again in place, each job goes on with what is recorded


def test_proof_of_completeness_of_an_earlier_run_ends_the_chain_well(world):
    world.run(1)
    world.set("state-1", "NODE_FAIL")
    world.run(2, 1)
    world.set("state-2", "FAILED")
    # what the lost node had written arrives late
    world.link(1).collected.write_text(COMPLETE.lines() + "\n")
    assert world.run(3, 2)[0] == 0
    assert world.decision(3)[:2] == ["stop succeeded", "every rollout is recorded"]


def test_a_run_says_when_its_driver_started_and_what_time_it_had(world):
    world.limits(Budget(), walltime=600)
    world.run(1, drive="exit 1")
    folder = world.link(1).folder
    assert (folder / "walltime").read_text() == "600\n"
    assert 0 <= int((folder / "ready").read_text()) < 60
    assert not (folder / "command").exists()


# Cancellation


def test_a_tombstone_stops_a_running_job_its_successor_and_a_first_job(world):
    job = world.start(7, drive=UNTIL_STOPPED)
    until((world.cluster / "hears").exists)
    (world.job_dir / ".gym_cancelled").write_text("now\n")
    _, said = job.communicate(timeout=60)
    assert "the run was cancelled" in said
    assert world.link(7).end.read_text().splitlines()[0] == "stopped 75 cancel"
    assert world.lines("queue") == []
    for number, before in ((101, 7), (8, "")):
        assert world.run(number, before)[0] == 0
        assert world.decision(number)[:2] == ["stop cancelled", "the chain was cancelled"]
    assert world.worked == 1
    assert world.lines("looks") == []


def test_a_cancellation_while_the_successor_is_being_queued_takes_it_back(world):
    world.set("cancel-after-queueing")
    world.run(7)
    assert world.lines("queue") == []


# Runs that the scheduler believes to be over, and jobs that it brings back


def test_a_job_that_is_put_back_after_another_went_on_leaves_the_work_to_that(world):
    world.run(7)
    world.set("state-7", "FAILED")
    world.run(101, 7)
    status, said = world.run(7, restart=1)
    assert (status, world.worked) == (0, 2)
    assert "job 101 goes on after job 7 already" in said
    assert world.decision(7, 1)[0] == "stop running"
    assert world.lines("queue") == ["101", "102"]


@pytest.mark.parametrize("by", ["its successor", "a later run of the same job"])
def test_a_run_that_lives_on_beside_the_next_ends_and_queues_nobody(world, by):
    job = world.start(7, drive=UNTIL_STOPPED)
    until(lambda: world.worked)
    world.set("queue")
    if by == "its successor":
        (world.link(7).folder / "successor").write_text("101\n")
    else:
        world.link(7, 1).folder.mkdir()
    _, said = job.communicate(timeout=60)
    assert "goes on after this run already" in said
    assert world.link(7).end.read_text().splitlines()[0] == "stopped 75 continued"
    assert world.lines("queue") in ([], ["102"])


def test_what_a_lost_node_queued_after_the_end_of_its_chain_repeats_that_end(world):
    world.limits(Budget(max_walltime=60))
    world.run(7)
    world.set("state-7", "TIMEOUT")
    world.run(101, 7)
    world.set("state-101", "COMPLETED")
    status, said = world.run(900, 101)
    assert (status, world.worked) == (0, 1)
    assert world.decision(101)[0] == world.decision(900)[0] == "stop stopped"
    assert "job 101 had decided: " in said


def test_a_retry_that_was_counted_before_a_job_was_killed_does_not_use_up_the_last_one(world):
    world.limits(Budget(max_retries=1))
    world.run(7)
    world.set("state-7", "FAILED")
    world.run(101, 7)
    world.link(101).decision.unlink()
    world.run(101, 7, restart=1)
    assert world.decision(101, 1)[0] == "go_on running"
    assert world.dot(".gym_infra_retries") == ["1"]
    assert "retries=1 " in world.decision(101, 1)[2]


def test_a_script_that_dies_before_its_prologue_has_finished_leaves_nothing_in_the_queue(world):
    world.run(7)
    world.set("queue")
    world.set("state-7", "FAILED")
    (world.parts / "chain.sh").write_text("exit 9\n")
    world.limits(Budget())
    assert world.run(101, 7)[0] == 9
    assert (world.worked, world.lines("queue")) == (1, [])


def test_a_successor_that_cannot_be_taken_back_is_named(world):
    stub = world.parts / "scheduler_stub.sh"
    stub.write_text(stub.read_text() + "\ngym_drop_next() { return 1; }\n")
    world.limits(Budget())
    status, said = world.run(7, drive=says(COMPLETE))
    assert status == 0
    assert "job 101 could not be taken out of the queue" in said
    assert world.link(7).queued.read_text() == "101;main\n"
    assert world.events("successor_dropped") == []


def test_what_ends_a_job_before_its_driver_is_not_followed_by_a_word_about_the_driver(world):
    world.set("setup-fails")
    status, said = world.run(101)
    assert (status, world.worked) == (1, 0)
    assert said.splitlines()[-1] == "gym job: the lines of compute.setup ended with exit status 3"
    assert world.link(101).end.read_text().splitlines() == [
        "failed 1 none",
        "the lines of compute.setup ended with exit status 3",
    ]
