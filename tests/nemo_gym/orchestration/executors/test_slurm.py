"""The Slurm executor on a cluster that is not there: lost replies, refusals, pairing, observations."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.local_jobs import Workplace

from nemo_gym.chain.observation import JobState
from nemo_gym.errors import GymError, NotOursError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef, UnrecordedJob
from nemo_gym.orchestration.executors.slurm import SlurmExecutor, observation
from nemo_gym.orchestration.plan.values import OtelPlan, SlurmPlan
from nemo_gym.orchestration.submit import staging
from nemo_slurm.cluster import JobLook, Witness
from nemo_slurm.errors import NotReachableError
from nemo_slurm.hosts import Completed
from nemo_slurm.records import SlurmJob
from nemo_slurm.states import read_state, table
from nemo_slurm.testing import FakeCluster
from nemo_slurm.testing.model import ClusterModel

SLURM = SlurmPlan(options=["--account=lab", "--job-name=gym-x"], runtime="none")


class World:
    """Staged benchmarks and a cluster in this process."""

    def __init__(self, folder: Path) -> None:
        self.place = Workplace(folder)
        self.fake = FakeCluster()
        self.executor = SlurmExecutor(self.fake, environ={"MY_TOKEN": "token-canary", "OTHER": "x"})

    def submit(self, *names: str, max_parallel: int = 9, **changes):
        plans = [self.place.plan(name, run=None, command="true", slurm=SLURM, **changes) for name in names]
        submission = self.place.submission(*plans, max_parallel=max_parallel)
        staging.stage(submission)
        return submission, self.executor.submit(submission)

    def refs(self, submission, answers):
        pairs = zip(submission.jobs, answers, strict=True)
        return [JobRef(answer.job_id, plan.job_dir) for plan, answer in pairs if answer.job_id]

    def events(self, plan):
        return [json.loads(line) for line in JobPaths(plan.job_dir).events.read_text().splitlines()]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_job_carries_its_token_and_lies_in_its_folder(world):
    submission, (answer,) = world.submit("gpqa")
    job = world.fake.job(answer.job_id)
    assert job.comment == f"{submission.gym_job_id}/gpqa/1"
    assert (job.folder, job.arguments) == (str(submission.jobs[0].job_dir), [])
    (event,) = world.events(submission.jobs[0])
    assert (event["event"], event["job_id"]) == ("submitted", answer.job_id)
    assert event["at"].endswith("Z")


def test_a_lost_reply_leads_to_the_job_that_was_accepted_and_to_no_second_one(world):
    with world.fake.faults() as faults:
        faults.lost_replies = 1
        faults.hidden_for = 5
    _, answers = world.submit("a", "b")
    assert [job.id for job in world.fake.jobs()] == [answer.job_id for answer in answers]


def test_a_request_that_never_arrives_is_failed_after_a_while_and_can_be_made_again(world):
    with world.fake.faults() as faults:
        faults.lost_requests = 2
    submission, answers = world.submit("a", "b")
    assert answers[0].job_id is None
    assert "was not accepted" in answers[0].error
    assert answers[1].job_id is not None
    assert world.events(submission.jobs[0])[0]["event"] == "submit_failed"
    again = world.executor.submit(world.place.submission(submission.jobs[0]))
    assert again[0].job_id is not None


def test_a_job_whose_id_nobody_noted_down_is_found_by_its_whole_token_while_it_lives(world):
    names = ("gpqa", "gpqa-2")
    submission, (first, other) = world.submit(*names)
    again = replace(submission.jobs[0], resubmission=1)
    world.fake.end(first.job_id, "FAILED")
    (second,) = world.executor.submit(world.place.submission(again))
    folder, beside = (plan.job_dir for plan in submission.jobs)
    wanted = [
        UnrecordedJob(folder),
        UnrecordedJob(folder, 1),
        UnrecordedJob(folder, 11),
        UnrecordedJob(beside),
    ]
    assert world.executor.look_for(wanted) == {wanted[1]: second.job_id, wanted[3]: other.job_id}
    assert world.executor.look_for([]) == {}
    with world.fake.faults() as faults:
        faults.controller_down = True
    with pytest.raises(NotReachableError):
        world.executor.look_for(wanted)


def test_a_job_on_a_site_that_writes_comments_of_its_own_is_not_cancelled_and_that_is_said(world):
    submission, answers = world.submit("a")
    (job,) = world.refs(submission, answers)
    world.fake.change(job.job_id, comment="billing: lab 7")
    with pytest.raises(
        NotOursError, match=f"ends by itself as soon as it starts.*scancel {job.job_id}"
    ) as found:
        world.executor.cancel([job])
    assert found.value.job_ids == (job.job_id,)
    assert world.fake.job(job.job_id).active


def test_one_that_is_refused_shifts_no_other(world):
    with world.fake.faults() as faults:
        faults.submit_limit = 2
    submission, answers = world.submit("a", "b", "c", "d")
    assert [answer.benchmark for answer in answers] == ["a", "b", "c", "d"]
    assert [answer.job_id is None for answer in answers] == [False, False, True, True]
    assert "AssocMaxSubmitJobLimit" in answers[2].error
    comments = {job.id: job.comment for job in world.fake.jobs()}
    assert comments[answers[1].job_id].endswith("/b/1")
    assert submission.jobs[2].job_dir.is_dir()


def test_a_job_of_somebody_else_under_a_number_of_ours_is_never_cancelled(world):
    submission, answers = world.submit("a", "b")
    one, two = world.refs(submission, answers)
    with world.fake._state.open() as model:
        model.jobs[one.job_id].comment = "another-run/a/1"
    with pytest.raises(GymError, match=f"job {one.job_id} of the cluster is not proven to be of this run"):
        world.executor.cancel([one, two])
    assert [job.active for job in world.fake.jobs()] == [True, False]


def test_a_job_of_the_longest_name_is_known_and_ends_when_it_is_told_to(world):
    name = "x" * 128
    options = ["--account=lab", f"--job-name=gym-{name}"]
    plan = world.place.plan(name, run=None, command="true", slurm=SlurmPlan(options=options, runtime="none"))
    submission = world.place.submission(plan)
    staging.stage(submission)
    script = JobPaths(plan.job_dir).script
    script.write_text(f"#!/bin/bash\n#SBATCH --job-name=gym-{name}\n")
    (answer,) = world.executor.submit(submission)
    job = JobRef(answer.job_id, plan.job_dir)
    assert world.fake.job(answer.job_id).name == f"gym-{name}"
    assert world.executor.observe([job])[job.job_id].state in (JobState.QUEUED, JobState.RUNNING)
    world.executor.cancel([job])
    assert world.executor.observe([job])[job.job_id].state is JobState.CANCELLED


@pytest.mark.parametrize("comment", ["charged to 42: {}", "{} (physics)"])
def test_a_lost_job_is_found_where_the_site_adds_words_to_comments(world, comment, monkeypatch):
    accept = ClusterModel.accept

    def with_words(model, job):
        job.comment = comment.format(job.comment)
        return accept(model, job)

    monkeypatch.setattr(ClusterModel, "accept", with_words)
    with world.fake.faults() as faults:
        faults.lost_replies = 1
    submission, answers = world.submit("a", "ab")
    assert [answer.error for answer in answers] == [None, None]
    assert len(world.fake.jobs()) == 2
    world.executor.cancel(world.refs(submission, answers))
    assert not any(job.active for job in world.fake.jobs())


def test_when_the_controller_is_away_every_benchmark_says_so_and_nothing_is_known_of_jobs(world):
    submission, answers = world.submit("a")
    job = world.refs(submission, answers)[0]
    with world.fake.faults() as faults:
        faults.controller_down = True
        faults.accounting = "down"
    seen = world.executor.observe([job])[job.job_id]
    assert seen.state is JobState.UNKNOWN
    assert "Unable to contact slurm controller" in seen.reason
    with pytest.raises(GymError, match=job.job_id):
        world.executor.cancel([job])
    refused = world.executor.submit(world.place.submission(world.place.plan("a", slurm=SLURM)))
    assert refused[0].job_id is None
    assert refused[0].error


def test_a_banner_and_a_clusters_name_are_no_part_of_an_id(world):
    with world.fake.faults() as faults:
        faults.banner = "** maintenance on Monday **\n"
        faults.cluster_name = "alpha"
    submission, (answer,) = world.submit("a")
    assert answer.job_id.isdecimal()
    assert world.events(submission.jobs[0])[0]["cluster"] == "alpha"


def test_the_telemetry_token_is_the_only_value_handed_to_a_job(world):
    otel = OtelPlan(
        binary="otelcol",
        endpoint="http://127.0.0.1:9",
        service_name="s",
        token_env="MY_TOKEN",
        config={},
        health_check_timeout_seconds=1,
    )
    _, (answer,) = world.submit("a", otel=otel)
    given = world.fake.job(answer.job_id)
    assert given.environment["MY_TOKEN"] == "token-canary"
    assert "OTHER" not in given.environment
    assert "token-canary" not in given.text


def test_beyond_the_allowed_number_each_job_waits_for_one_before_it(world):
    _, answers = world.submit("a", "b", "c", "d", max_parallel=2)
    ids = [answer.job_id for answer in answers]
    found = [world.fake.job(number).options["dependency"] for number in ids]
    assert found == ["", "", f"afterany:{ids[0]}", f"afterany:{ids[1]}"]


@pytest.mark.parametrize("name", [*table(), "SOMETHING_NEW"])
def test_every_state_has_a_meaning_here_and_only_ends_are_final(name):
    state = read_state(name)
    ended = state.known and state.meaning.value != "lag"
    seen = JobLook(
        SlurmJob("7"), Witness.CONTROLLER, state, settled=ended, exit_status=3, started_at=1.0, ended_at=2.0
    )
    found = observation(seen, silent=None)
    assert found.state.final == ended
    wanted = {"COMPLETED": JobState.SUCCEEDED, "CANCELLED": JobState.CANCELLED, "RUNNING": JobState.RUNNING}
    wanted |= {"PENDING": JobState.QUEUED, "REQUEUED": JobState.QUEUED, "SOMETHING_NEW": JobState.UNKNOWN}
    assert found.state is wanted.get(name, JobState.FAILED if ended else found.state)
    if found.state is JobState.FAILED:
        assert found.word == name
        assert found.reason


def test_an_end_that_may_be_taken_back_is_not_final():
    seen = JobLook(SlurmJob("7"), Witness.CONTROLLER, read_state("PREEMPTED"), settled=False)
    assert observation(seen, silent=None).state is JobState.QUEUED


def test_nothing_known_says_why_nobody_answered():
    seen = JobLook(SlurmJob("7"), Witness.NOBODY, None, settled=False)
    assert observation(seen, silent="slurmdbd is down").reason == "slurmdbd is down"
    assert observation(seen, silent=None).state is JobState.UNKNOWN


def test_a_scheduler_that_is_away_is_asked_for_one_benchmark_and_no_more(world):
    with world.fake.faults() as faults:
        faults.controller_down = True
    names = [f"b{number}" for number in range(8)]
    submission, answers = world.submit(*names)
    assert [answer.benchmark for answer in answers] == names
    assert [answer.job_id for answer in answers] == [None] * 8
    assert "Unable to contact" in answers[0].error
    for answer in answers[1:]:
        assert answer.error == (
            "the scheduler was not asked: for b0 it gave no answer; queue this one when it answers again"
        )
    assert sum(world.fake.calls().values()) <= 3
    # the next time it is asked again
    with world.fake.faults() as faults:
        faults.controller_down = False
    assert all(answer.job_id for answer in world.executor.submit(submission))


@pytest.mark.parametrize("rule", ["refused", "satisfied"])
def test_a_benchmark_is_not_lost_for_waiting_for_a_job_that_is_forgotten(world, rule):
    with world.fake.faults() as faults:
        faults.unknown_dependency, faults.remembers, faults.slots = rule, 0.0, 9
    accept = world.fake._calls.call

    def call(argvs, **options):
        done = accept(argvs, **options)
        if argvs[0][0] == "sbatch":
            # each job is over and forgotten before the next one is submitted
            with world.fake._state.open() as model:
                for number, job in list(model.jobs.items()):
                    if rule == "refused" and job.comment.endswith("/a/1"):
                        del model.jobs[number]
        return done

    world.fake._calls.call = call
    _, answers = world.submit("a", "b", max_parallel=1)
    assert [answer.error for answer in answers] == [None, None]


def test_a_dependency_problem_with_a_job_that_lives_stays_a_refusal(world, monkeypatch):
    real = world.fake._calls.call

    def call(argvs, **options):
        if argvs[0][0] == "sbatch" and any(word.startswith("--dependency") for word in argvs[0]):
            return [Completed(1, "", "sbatch: error: Batch job submission failed: Job dependency problem\n")]
        return real(argvs, **options)

    monkeypatch.setattr(world.fake._calls, "call", call)
    _, (first, second) = world.submit("a", "b", max_parallel=1)
    assert (first.error, second.job_id) == (None, None)
    assert "Job dependency problem" in second.error


def test_a_benchmark_is_not_resubmitted_beside_a_job_of_it_that_nobody_had_heard_of(world):
    submission, (answer,) = world.submit("a")
    again = replace(submission.jobs[0], resubmission=1)
    (refused,) = world.executor.submit(replace(submission, jobs=[again]))
    assert refused.error == f"job {answer.job_id} of it is in the queue already"
    world.fake.end(answer.job_id)
    (taken,) = world.executor.submit(replace(submission, jobs=[again]))
    assert taken.job_id is not None


def test_a_submission_that_certainly_never_arrived_is_tried_once_more(world):
    with world.fake.faults() as faults:
        faults.lost_requests = 1
    _, (answer,) = world.submit("a")
    assert (answer.error, len(world.fake.jobs())) == (None, 1)
