"""A number that was used before: what the files say of a job disowns the records of another."""

from __future__ import annotations

import getpass
import json
import os
import shutil
from dataclasses import replace

import pytest
from tests.nemo_gym.orchestration.evidence_files import link, progress
from tests.nemo_gym.orchestration.executors.test_slurm import World

from nemo_gym.chain.observation import JobState
from nemo_gym.errors import RefusedError
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.slurm_identity import Identities
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.plan.values import SlurmPlan
from nemo_gym.orchestration.status.gather import gather
from nemo_gym.orchestration.status.last_observation import LastSeen
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_gym.orchestration.status.report import BenchmarkStatus, assess
from nemo_gym.orchestration.submit import resubmit, staging
from nemo_runs.clock import SECOND, MovableClock
from nemo_slurm.errors import NotReachableError
from nemo_slurm.hosts import LocalHost

NAMED = SlurmPlan(options=["--account=lab", "--job-name=gym-gpqa"], runtime="none")


class Chain(World):
    """A benchmark at work, its memory between two commands, and a clock."""

    def __init__(self, folder) -> None:
        super().__init__(folder)
        self.clock = MovableClock(round(self.fake.now() * SECOND))
        plan = self.place.plan("gpqa", run=None, command="true", slurm=NAMED)
        self.submission = self.place.submission(plan)
        staging.stage(self.submission)
        self.job_dir = plan.job_dir
        self.memory = folder / "seen.json"
        self.number = ""

    def queue(self) -> str:
        (answer,) = self.executor.submit(self.submission)
        self.number = answer.job_id or ""
        return self.number

    def write(self, *files) -> None:
        for name, text in (item for some in files for item in some.items()):
            (self.job_dir / name).parent.mkdir(parents=True, exist_ok=True)
            (self.job_dir / name).write_text(text)

    def works(self) -> None:
        """The job has written what a job writes that is at work."""
        self.move(300)
        self.write(link(f"{self.number}.0", started=self.fake.now() - 290))
        self.write(progress(32, expected=500, updated_at=self.fake.now()))

    def move(self, seconds: float) -> None:
        self.fake.move(seconds)
        self.clock.advance(seconds)

    @property
    def record(self) -> SubmissionRecord:
        entry = BenchmarkEntry(benchmark="gpqa", job_dir=str(self.job_dir), job_id=self.number)
        return SubmissionRecord(
            gym_job_id=self.submission.gym_job_id, gym_version="", gym_commit=None, submitted_at="",
            run_dir=str(self.job_dir.parent), cluster="c", executor="slurm", submitted_by="ada",
            benchmarks=(entry,),
        )  # fmt: skip

    def groups(self, records):
        return [(SubmissionMachine(self.executor, memory=LastSeen(self.memory)), list(records))]

    def status(self) -> BenchmarkStatus:
        """As another command sees it."""
        (known,) = gather([self.record], self, clock=self.clock).values()
        return assess(replace(known, now=self.fake.now()))

    def resubmit(self) -> None:
        wish = resubmit.ResubmitRequest(record=self.record, benchmark="gpqa", by="ada", environ={})
        resubmit.resubmit(wish, self, clock=self.clock)


@pytest.fixture
def chain(tmp_path):
    return Chain(tmp_path)


OURS = {"name": "gym-gpqa", "uid": os.getuid(), "ago": 3600.0 * 24, "comment": ""}
OLDER = {
    "a stranger's": {},
    "a stranger's of the same name, a moment ago": {"name": "gym-gpqa", "ago": -200.0},
    "our own, of another run": {**OURS, "comment": "gym-job-20200101T000000Z-aaaaaa/gpqa/1"},
    "our own, where no comments are kept": OURS,
    "our own of another name": {**OURS, "name": "train", "ago": -200.0},
}


@pytest.mark.parametrize("older", OLDER)
@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"])
def test_an_older_record_of_the_same_number_changes_nothing_of_a_running_chain(chain, older, state):
    number = chain.queue()
    chain.works()
    chain.fake.remember_older(number, state, author=0 if state == "CANCELLED" else None, **OLDER[older])
    with chain.fake.faults() as faults:
        faults.controller_down = True
        faults.invisible = [number]
    for _ in range(2):
        status = chain.status()
        assert (status.state, status.done, status.expected) == ("running", 32, 500), status.reason
        assert status.silent
        with pytest.raises(RefusedError, match="it is not known whether job"):
            chain.resubmit()
        chain.move(60)
    # all of it answers again
    with chain.fake.faults() as faults:
        faults.controller_down, faults.invisible = False, []
    assert (chain.status().state, chain.status().silent) == ("running", "")
    with pytest.raises(RefusedError, match="is alive"):
        chain.resubmit()
    assert len(chain.fake.jobs()) == 1


def test_an_end_that_may_be_another_jobs_is_not_remembered_and_a_poisoned_memory_is_none(chain):
    number = chain.queue()
    chain.works()
    poisoned = {"state": "SUCCEEDED", "reason": "", "word": "COMPLETED", "at": chain.fake.now()}
    chain.memory.write_text(json.dumps({f"{number} {chain.job_dir}": poisoned}))
    assert chain.status().state == "running"
    chain.fake.end(number, "FAILED", 3)
    chain.move(2000)
    assert chain.status().reason == "the job script ended with exit status 3"
    kept = json.loads(chain.memory.read_text())[f"{number} {chain.job_dir}"]
    assert (kept["state"], kept["proven"]) == ("FAILED", True)


def test_a_remembered_end_gives_way_to_the_queue_and_to_a_later_run(chain):
    number = chain.queue()
    chain.works()
    chain.fake.end(number, "FAILED", 3)
    chain.move(10)
    assert chain.status().state == "failed"
    # a person puts it back while the controller knows it still
    chain.fake.change(number, state="PENDING", ended_at=None, restarts=1, submitted_at=chain.fake.now())
    assert chain.status().state in ("queued", "running")
    chain.fake.start(number) if chain.fake.job(number).state == "PENDING" else None
    chain.move(5000)
    chain.write(link(f"{number}.1", started=chain.fake.now() - 10))
    with chain.fake.faults() as faults:
        faults.controller_down, faults.accounting = True, "down"
    assert chain.status().state == "running"
    with pytest.raises(RefusedError, match="it is not known whether"):
        chain.resubmit()


def test_where_no_comments_are_kept_user_name_and_time_prove_an_end_and_a_requeue_moves_the_time(chain):
    with chain.fake.faults() as faults:
        faults.keeps_comments = False
    number = chain.queue()
    chain.works()
    chain.fake.requeue(number, "NODE_FAIL")
    chain.move(7200)
    chain.fake.end(number, "FAILED", 3)
    chain.move(2000)
    seen = chain.executor.observe([JobRef(number, chain.job_dir)])[number]
    assert (seen.state, seen.proven, seen.exit_status) == (JobState.FAILED, True, 3)


def test_the_author_of_a_cancellation_is_named_and_is_not_its_owner(chain):
    number = chain.queue()
    chain.works()
    chain.fake.end(number, "CANCELLED", author=0 if os.getuid() else 4242)
    status = chain.status()
    assert (status.state, status.cause) == ("cancelled", "infrastructure")
    named = "an administrator, or Slurm itself" if os.getuid() else "user 4242 (not its owner, user 0)"
    assert named in status.reason


def test_what_its_owner_cancelled_is_a_persons_doing(chain):
    number = chain.queue()
    chain.works()
    chain.fake.end(number, "CANCELLED", author=os.getuid())
    status = chain.status()
    assert (status.state, status.cause) == ("cancelled", "a person")
    assert f"user {os.getuid()}" in status.reason


class Elsewhere(LocalHost):
    """This machine under another name, so that everything is read by a script over there."""

    @property
    def name(self):
        return "far"


def test_there_and_here_the_same_is_read(chain, tmp_path):
    chain.number = "12"
    chain.works()
    jobs = [JobRef("12", chain.job_dir), JobRef("13", chain.job_dir), JobRef("14", tmp_path / "no\nfolder")]
    here = Identities(LocalHost()).of(jobs, {"13": "alpha"})
    there = Identities(Elsewhere()).of(jobs, {"13": "alpha"})
    assert {job: replace(found, submitted_at=None) for job, found in here.items()} == {
        job: replace(found, submitted_at=None) for job, found in there.items()
    }
    known = here[jobs[0]]
    assert (known.user, known.name) == (os.getuid(), "gym-gpqa")
    assert known.token == f"{chain.submission.gym_job_id}/gpqa/"
    assert known.began_at == pytest.approx(chain.fake.now() - 290)
    assert (here[jobs[1]].cluster, here[jobs[1]].began_at) == ("alpha", None)
    assert (here[jobs[2]].user, here[jobs[2]].name) == (None, None)
    assert getpass.getuser()


def test_a_copied_run_directory_does_not_move_the_time_of_its_submission(chain):
    number = chain.queue()
    job = JobRef(number, chain.job_dir)
    os.utime(chain.job_dir / "job.sh", (chain.fake.now() + 86_400,) * 2)
    found = Identities(LocalHost()).of([job], {})[job]
    assert found.submitted_at == chain.fake.now()  # as its id says
    os.utime(chain.job_dir / "job.sh", (1_700_000_000,) * 2)
    assert Identities(LocalHost()).of([job], {})[job].submitted_at == 1_700_000_000


def test_a_host_that_does_not_answer_leaves_what_the_path_says(chain, monkeypatch):
    def away(*_args, **_more):
        raise NotReachableError("no answer")

    monkeypatch.setattr(Elsewhere, "run", away)
    job = JobRef("12", chain.job_dir)
    found = Identities(Elsewhere()).of([job], {})[job]
    assert (found.user, found.token) == (None, f"{chain.submission.gym_job_id}/gpqa/")
    shutil.rmtree(chain.job_dir)
