"""What every executor promises, whatever runs its jobs (see `nemo_gym.orchestration.executors.base`)."""

import os
import shutil

import pytest
from tests.local_jobs import Workplace, until
from tests.slurm.lab import slurm, slurm_lab  # noqa: F401 - fixtures

from nemo_gym.chain.observation import JobState
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration import executor_kinds
from nemo_gym.orchestration.executors import registry
from nemo_gym.orchestration.executors.base import JobExecutor, JobRef, Queued
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.executors.slurm import SlurmExecutor
from nemo_gym.orchestration.plan.values import SlurmPlan
from nemo_gym.orchestration.submit import staging
from nemo_slurm import testing as slurm_testing
from nemo_slurm.cluster import Cluster
from nemo_slurm.hosts import LocalHost

pytestmark = pytest.mark.e2e


class Local:
    """Jobs of the `local` executor; a job ends when a file says how."""

    def __init__(self, folder, request=None):
        self.place = Workplace(folder)
        self.place.grace = 1.0

    def executor(self) -> JobExecutor:
        """Another one each time, as another program would have it."""
        return self.place.executor

    wait = 'until [ -e end ]; do sleep 0.05; done; exit "$(cat end)"'

    def plan(self, name):
        return self.place.plan(name, run=None, command=self.wait)

    def submit(self, names, refused=()):
        submission = self.place.submission(*(self.plan(name) for name in names))
        staging.stage(submission)
        for plan in submission.jobs:
            if plan.benchmark in refused:
                shutil.rmtree(plan.job_dir)
        answers = self.executor().submit(submission)
        self.place.jobs += [job for job in references(submission, answers) if job]
        return submission, answers

    def start(self, job):
        pass

    def end(self, job, status):
        (job.job_dir / "end.new").write_text(str(status))
        os.rename(job.job_dir / "end.new", job.job_dir / "end")

    def close(self):
        self.place.tidy()


class Slurm(Local):
    """Jobs of the `slurm` executor on the fake cluster's programs; time passes with each look."""

    def __init__(self, folder, request):
        super().__init__(folder)
        self.request = request
        self.bring_up(folder)

    def bring_up(self, folder):
        self.fake = slurm_testing.FakeCluster(folder / "cluster")
        patch = self.request.getfixturevalue("monkeypatch")
        patch.setenv("PATH", f"{self.fake.path}:{os.environ['PATH']}")

    def executor(self) -> JobExecutor:
        self.fake.move(1)
        self.fake.bash.step(grace=0.5)
        return SlurmExecutor(Cluster(LocalHost()))

    def plan(self, name):
        options = ["--account=lab", "--time=00:05:00", "--no-requeue"]
        cluster = SlurmPlan(options=options, runtime="none")
        return self.place.plan(name, run=None, command=self.wait, slurm=cluster)

    def close(self):
        self.executor().cancel(self.place.jobs)
        self.fake.bash.close()


class RealSlurm(Slurm):
    """The same on a real Slurm."""

    def bring_up(self, folder):
        real = self.request.getfixturevalue("slurm")
        real.prefix = f"{self.place.gym_job_id}/"

    def executor(self) -> JobExecutor:
        return SlurmExecutor(Cluster(LocalHost()))

    def close(self):
        self.executor().cancel(self.place.jobs)


class Fake:
    """Jobs that only a test moves."""

    def __init__(self, folder, request):
        self.place, self.cluster = Workplace(folder), FakeQueue(now=lambda: 5.0)

    def executor(self) -> JobExecutor:
        return FakeJobExecutor(self.cluster)

    def submit(self, names, refused=()):
        self.cluster.refused = refused
        submission = self.place.submission(*(self.place.plan(name) for name in names))
        return submission, self.executor().submit(submission)

    def start(self, job):
        self.cluster.start(job.job_id)

    def end(self, job, status):
        self.cluster.end(job.job_id, status)

    def close(self):
        pass


@pytest.fixture(params=[Local, Slurm, pytest.param(RealSlurm, marks=pytest.mark.slurm), Fake])
def world(request, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = request.param(tmp_path, request)
    yield made
    made.close()


def references(submission, answers):
    """How a later program names the jobs; `None` where one was not queued."""
    return [
        JobRef(answer.job_id, plan.job_dir) if answer.job_id else None
        for plan, answer in zip(submission.jobs, answers, strict=True)
    ]


def state(world, job):
    return world.executor().observe([job])[job.job_id].state


def test_every_benchmark_is_answered_in_order_and_one_that_is_refused_disturbs_no_other(world):
    submission, answers = world.submit(["first", "refused", "last"], refused=("refused",))
    assert [answer.benchmark for answer in answers] == ["first", "refused", "last"]
    assert answers[1].job_id is None
    assert answers[1].error
    assert [answer.error for answer in (answers[0], answers[2])] == [None, None]
    first, _, last = references(submission, answers)
    assert first.job_id != last.job_id
    for job, status in ((first, 0), (last, 3)):
        world.start(job)
        until(lambda job=job: state(world, job) is JobState.RUNNING)
        world.end(job, status)
    until(lambda: state(world, first).final and state(world, last).final)
    seen = world.executor().observe([last, first])
    assert (seen[first.job_id].state, seen[first.job_id].exit_status) == (JobState.SUCCEEDED, 0)
    assert (seen[last.job_id].state, seen[last.job_id].exit_status) == (JobState.FAILED, 3)
    assert seen[last.job_id].reason
    assert seen[last.job_id].started_at <= seen[last.job_id].ended_at


def test_a_cancelled_job_ends_cancelled_and_a_final_state_stays(world):
    submission, answers = world.submit(["one", "two"])
    one, two = references(submission, answers)
    for job in (one, two):
        world.start(job)
        until(lambda job=job: state(world, job) is JobState.RUNNING)
    world.end(two, 0)
    until(lambda: state(world, two).final)
    world.executor().cancel([one, two])
    until(lambda: state(world, one).final)
    before = world.executor().observe([one, two])
    assert [before[job.job_id].state for job in (one, two)] == [JobState.CANCELLED, JobState.SUCCEEDED]
    world.executor().cancel([one, two])
    world.end(one, 5)
    assert world.executor().observe([one, two]) == before


def test_a_job_that_nobody_knows_is_unknown_and_can_be_cancelled_in_vain(world, tmp_path):
    stranger = JobRef("local-99", tmp_path / "nowhere")
    world.executor().cancel([stranger])
    seen = world.executor().observe([stranger])["local-99"]
    assert seen.state is JobState.UNKNOWN
    assert not seen.state.final
    assert seen.reason


def test_nothing_is_asked_about_no_jobs(world):
    assert world.executor().observe([]) == {}
    world.executor().cancel([])


@pytest.mark.parametrize("name", executor_kinds.TYPES)
def test_every_registered_type_has_an_executor_of_that_name(name):
    assert registry.executor_for(name).name == name


def test_an_unknown_type_is_refused_and_the_known_ones_named():
    with pytest.raises(ConfigError, match=r"'cloud'.*local"):
        registry.executor_for("cloud")


def test_an_executor_of_somebody_else_needs_nothing_but_the_protocol():
    class Refusing:
        name = "refusing"
        supports_resumable = False
        supports_containers = False

        def submit(self, submission):
            return [Queued(plan.benchmark, None, "no") for plan in submission.jobs]

        def observe(self, jobs):
            return {}

        def cancel(self, jobs):
            return None

    outsider: JobExecutor = Refusing()
    assert outsider.observe([]) == {}
