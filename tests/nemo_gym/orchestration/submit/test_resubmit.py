"""Queueing again in place: when it is refused, what is recorded, what can be raised."""

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.evidence_files import ID, collected, link

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.errors import ConfigError, GymError, RefusedError, UsageError
from nemo_gym.orchestration.executors.base import Queued, UnrecordedJob
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.plan.job_script import quote
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_gym.orchestration.submit.resubmit import ResubmitRequest, resubmit, resubmit_model
from nemo_runs.clock import MovableClock
from nemo_runs.errors import DiskFullError
from nemo_runs.processes import trees

CONFIG = """
compute:
  here: {type: local, max_parallel: 3, walltime: "00:10:00"}
driver:
  benchmarks:
    gpqa:
      resumable: {max_retries: 2, max_walltime: "02:00:00"}
      run: {policy_base_url: "http://h/v1", policy_model_name: m, config_paths: [gpqa]}
    free:
      resumable: true
      run: {policy_base_url: "http://h/v1", policy_model_name: m, config_paths: [gpqa]}
    plain: {command: "true"}
job: {output_path: /runs}
"""


class Place:
    """One submission with ended jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.executor = folder, FakeJobExecutor(FakeQueue())
        (folder / "resolved-config.yaml").write_text(CONFIG)
        self.executor.cluster.jobs["1"] = JobObservation(JobState.FAILED, "it broke", word="FAILED")
        for name in ("gpqa", "free", "plain"):
            self.put(name, link("1.0", end="failed 1 none\nit broke"))

    def groups(self, records):
        return [(SubmissionMachine(self.executor), list(records))]

    def put(self, benchmark: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / benchmark / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def value(self, name: str, benchmark: str = "gpqa") -> str:
        return (self.folder / benchmark / name).read_text()

    def again(self, benchmark: str = "gpqa", **changes):
        entries = tuple(
            BenchmarkEntry(benchmark=name, job_dir=str(self.folder / name), job_id="1")
            for name in ("gpqa", "free", "plain")
        )
        record = SubmissionRecord(
            gym_job_id=ID, gym_version="", gym_commit=None, submitted_at="", run_dir=str(self.folder),
            cluster="here", executor="fake", submitted_by="ada", benchmarks=entries,
        )  # fmt: skip
        values = {"record": record, "benchmark": benchmark, "by": "ada", "environ": {}, **changes}
        return resubmit(ResubmitRequest(**values), self, clock=MovableClock())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_benchmark_is_queued_in_its_folder_with_the_settings_of_its_submission(place):
    place.put("gpqa", {".gym_cancelled": "t\nada\nwhy\n"})
    done = place.again(reason="the disk is larger\nnow")
    [submission] = place.executor.submissions
    [plan] = submission.jobs
    assert (plan.job_dir, plan.walltime, submission.max_parallel) == (place.folder / "gpqa", 600, 3)
    assert (plan.budget.max_retries, plan.resubmission) == (2, 1)
    assert (done.job_id, done.number) == ("fake-1", 1)
    assert place.value("resubmits/1/queued") == "fake-1\n"
    assert place.value("resubmits/1/reason") == "2027-01-15T08:00:00.000Z\nada\nthe disk is larger now\n"
    assert not (place.folder / "gpqa" / ".gym_cancelled").exists()
    assert json.loads(place.value(".gym_events.jsonl"))["event"] == "resubmitted"


def test_it_is_refused_while_anything_is_alive(place):
    place.executor.cluster.jobs["1"] = JobObservation(JobState.RUNNING, "")
    with pytest.raises(RefusedError, match=rf"alive \(job 1\).*gym job cancel {ID} gpqa"):
        place.again()
    place.put("gpqa", link("1.0", queued="2"))
    place.executor.cluster.jobs |= {
        "1": JobObservation(JobState.FAILED, "", word="TIMEOUT"),
        "2": JobObservation(JobState.QUEUED, ""),
    }
    with pytest.raises(RefusedError, match=r"alive \(job 2\)"):
        place.again()
    assert not (place.folder / "gpqa" / "resubmits").exists()


def test_a_job_that_a_killed_resubmit_had_queued_is_found_and_counts_as_alive(place):
    dead = json.dumps({**trees.identify().to_json(), "start_time": 1})
    place.put("gpqa", {"resubmits/1/owner": dead})
    place.executor.cluster.jobs["7"] = JobObservation(JobState.QUEUED, "Priority")
    place.executor.cluster.unheard[UnrecordedJob(place.folder / "gpqa", 1)] = "7"
    with pytest.raises(RefusedError, match=rf"alive \(job 7\).*gym job cancel {ID} gpqa"):
        place.again()
    assert not (place.folder / "gpqa/resubmits/1/queue_error").exists()
    place.executor.cluster.cancel("7")
    del place.executor.cluster.unheard[UnrecordedJob(place.folder / "gpqa", 1)]
    assert place.again().number == 2


def test_it_is_refused_while_nobody_can_tell(place):
    def silent(jobs):
        return {job.job_id: JobObservation(JobState.UNKNOWN, "no answer", silent=True) for job in jobs}

    place.executor.observe = silent
    (place.folder / "gpqa/links/1.0/end").unlink()
    with pytest.raises(RefusedError, match=r"it is not known whether job 1 .* still runs \(no answer\)"):
        place.again()


def test_it_is_refused_when_everything_is_recorded(place):
    place.put("gpqa", link("1.0", collected=collected()))
    with pytest.raises(RefusedError, match="every rollout is recorded"):
        place.again()


def test_it_is_refused_while_another_one_is_under_way(place):
    place.put("gpqa", {"resubmits/1/reason": "t\nada\nx\n"})
    with pytest.raises(RefusedError, match="is being resubmitted, or that was interrupted"):
        place.again()


def test_used_up_walltime_must_be_raised_with_a_reason(place):
    place.put("gpqa", {".gym_accumulated_walltime": "7200\n"})
    with pytest.raises(RefusedError, match="02:00:00 of walltime are used and max_walltime is 02:00:00"):
        place.again()
    with pytest.raises(UsageError, match="needs a reason"):
        place.again(max_walltime="04:00:00")
    place.again(max_walltime="04:00:00", max_retries=5, reason="longer answers")
    assert (place.value("resubmits/1/max_walltime"), place.value("resubmits/1/max_retries")) == (
        "14400\n",
        "5\n",
    )
    event = json.loads(place.value(".gym_events.jsonl"))
    assert (event["max_walltime"], event["max_retries"], event["reason"]) == ("04:00:00", 5, "longer answers")


@pytest.mark.parametrize(
    ("benchmark", "raised", "sentence"),
    [
        ("gpqa", {"max_retries": 2}, "it is 2 already, and can only be raised"),
        ("gpqa", {"max_walltime": "01:00:00"}, "it is 02:00:00 already, and can only be raised"),
        ("free", {"max_walltime": "01:00:00"}, "it is unlimited already"),
        ("plain", {"max_retries": 9}, "plain is not resumable"),
    ],
)
def test_budgets_can_only_be_raised(place, benchmark, raised, sentence):
    with pytest.raises(UsageError, match=sentence):
        place.again(benchmark, reason="why not", **raised)


def test_what_was_raised_before_counts(place):
    place.again(max_retries=4, reason="once")
    place.executor.cluster.start("fake-1")
    place.executor.cluster.end("fake-1", 1)
    with pytest.raises(UsageError, match="it is 4 already"):
        place.again(max_retries=4, reason="twice")
    assert place.again(max_retries=5, reason="twice").number == 2


def test_a_refusal_of_the_executor_is_recorded_and_does_not_stand_in_the_way(place):
    submit = place.executor.submit
    place.executor.submit = lambda submission: [Queued("gpqa", None, "too many jobs")]
    with pytest.raises(GymError, match="could not be queued: too many jobs"):
        place.again()
    assert place.value("resubmits/1/queue_error") == "too many jobs\n"
    place.executor.submit = submit
    assert place.again().number == 2


def test_the_telemetry_token_is_asked_for_since_it_is_in_no_file(place):
    otel = "otel: {endpoint: 'http://h:4317', service_name: s, token_env: TOKEN}\n"
    (place.folder / "resolved-config.yaml").write_text(CONFIG + otel)
    with pytest.raises(ConfigError, match="TOKEN is not set or empty"):
        place.again()
    place.again(environ={"TOKEN": "x"})
    assert place.executor.submissions[0].jobs[0].otel.token_env == "TOKEN"


def test_without_the_config_of_the_submission_nothing_is_queued(place):
    (place.folder / "resolved-config.yaml").unlink()
    with pytest.raises(GymError, match="nothing says how to queue"):
        place.again()


def test_an_attempt_that_could_not_be_noted_down_is_not_in_the_way_of_the_next(place, monkeypatch):
    def full(self, path, data):
        raise DiskFullError(f"{path}: could not be written")

    with monkeypatch.context() as patched:
        patched.setattr(LocalRunFiles, "write", full)
        with pytest.raises(DiskFullError):
            place.again()
    assert place.again().number == 1


KILLED = "it was killed before it had noted down a job\n"


def test_an_attempt_whose_process_was_killed_is_not_in_the_way_and_one_that_may_live_is(place):
    with subprocess.Popen(["sleep", "60"]) as process:
        owner = json.dumps(trees.identify(process.pid).to_json())
        place.put("gpqa", {"resubmits/1/owner": owner, "resubmits/1/reason": "t\nada\nx\n"})
        with pytest.raises(RefusedError, match="is being resubmitted"):
            place.again()
        process.kill()
    elsewhere = json.dumps({**json.loads(owner), "host": "another", "boot_id": "another"})
    place.put("gpqa", {"resubmits/1/owner": elsewhere})
    with pytest.raises(RefusedError, match="is being resubmitted"):
        place.again()
    place.put("gpqa", {"resubmits/1/owner": owner})
    assert place.again().number == 2
    assert (place.value("resubmits/1/queue_error"), place.value("resubmits/2/queued")) == (KILLED, "fake-1\n")


def test_what_kills_a_resubmission_while_it_queues_leaves_a_way_on(place):
    place.executor.submit = lambda _submission: os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if not child:
        try:
            place.again()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    del place.executor.submit
    assert place.again().number == 2


def test_an_attempt_of_which_only_the_claim_is_left_names_what_to_remove(place):
    claim = place.folder / "gpqa" / "resubmits" / "1"
    claim.mkdir(parents=True)
    with pytest.raises(RefusedError, match=f"interrupted: .* remove {claim}"):
        place.again()


def test_a_run_directory_that_was_moved_is_not_queued_again_from_where_it_is_now(place):
    place.put("gpqa", {"job.sh": f"#!/bin/sh\nGYM_JOB_DIR={quote('/runs/it' + chr(39) + 's/gpqa')}\nx=1\n"})
    with pytest.raises(RefusedError, match="was written for /runs/it's/gpqa: a run directory that was moved"):
        place.again()
    assert not (place.folder / "gpqa" / "resubmits").exists()
    place.put("gpqa", {"job.sh": f"#!/bin/sh\nGYM_JOB_DIR={quote(str(place.folder / 'gpqa'))}\n"})
    assert place.again().number == 1


def test_what_is_not_as_it_was_queued_is_not_queued_again_and_is_when_it_was_put_back(place):
    digests = {
        name: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        for name, text in {"job.sh": "s", "sealed/0/chain.sh": "c", "run.yaml": "r"}.items()
    }
    document = {"sealed": {"gpqa": digests}, "record": {"executor": "fake"}}
    (place.folder / ".gym_submission.json").write_text(json.dumps(document))
    place.put("gpqa", {"job.sh": "s", "sealed/0/chain.sh": "edited", "run.yaml": "edited"})
    with pytest.raises(
        RefusedError, match=r"^sealed/0/chain\.sh in .*gpqa: not as it was queued; put it back"
    ):
        place.again()
    assert not (place.folder / "gpqa" / "resubmits").exists()
    place.put("gpqa", {"job.sh": "edited", "sealed/0/chain.sh": "c"})
    with pytest.raises(RefusedError, match=r"^job\.sh in "):
        place.again()
    # jobs do not read run.yaml itself
    place.put("gpqa", {"job.sh": "s"})
    assert place.again().number == 1


CAMPAIGN = """
compute:
  here: {type: local, max_parallel: 3, walltime: "00:10:00"}
driver:
  models:
    small: {run: {policy_base_url: "http://h/v1", policy_model_name: m}}
  benchmarks:
    sums: {resumable: {max_retries: 2, max_walltime: "02:00:00"}, run: {config_paths: [gpqa]}}
    products: {resumable: {max_retries: 2, max_walltime: "02:00:00"}, run: {config_paths: [gpqa]}}
    choices: {resumable: true, run: {config_paths: [gpqa]}}
job: {output_path: /runs}
"""


class CampaignPlace(Place):
    """A campaign of one model whose benchmarks have ended."""

    names = ("small.sums", "small.products", "small.choices")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "resolved-config.yaml").write_text(CAMPAIGN)
        for name in self.names:
            self.put(name, link("1.0", end="failed 1 none\nit broke"))

    def request(self, **changes) -> ResubmitRequest:
        entries = tuple(
            BenchmarkEntry(benchmark=name, job_dir=str(self.folder / name), job_id="1", model="small")
            for name in self.names
        )
        record = SubmissionRecord(
            gym_job_id=ID, gym_version="", gym_commit=None, submitted_at="", run_dir=str(self.folder),
            cluster="here", executor="fake", submitted_by="ada", benchmarks=entries,
        )  # fmt: skip
        values = {"record": record, "benchmark": "small", "by": "ada", "environ": {}, **changes}
        return ResubmitRequest(**values)

    def queued(self) -> list[str]:
        return [plan.benchmark for submission in self.executor.submissions for plan in submission.jobs]


@pytest.fixture
def campaign(tmp_path):
    return CampaignPlace(tmp_path)


def test_a_model_of_a_campaign_is_all_of_its_benchmarks_that_have_not_succeeded(campaign):
    campaign.put("small.products", link("1.0", collected=collected()))
    done = resubmit_model(campaign.request(reason="again"), campaign, clock=MovableClock())
    assert campaign.queued() == ["small.sums", "small.choices"]
    assert [each.benchmark for each in done.done] == campaign.queued()
    assert (done.succeeded, done.problems) == (["small.products"], [])
    assert campaign.value("resubmits/1/queued", "small.sums") == "fake-1\n"


def test_nothing_of_a_model_is_queued_while_one_benchmark_is_alive(campaign):
    campaign.put("small.choices", link("1.0", queued="2"))
    campaign.executor.cluster.jobs["2"] = JobObservation(JobState.QUEUED, "")
    with pytest.raises(RefusedError, match=r"small.choices of .* is alive \(job 2\)"):
        resubmit_model(campaign.request(), campaign, clock=MovableClock())
    assert campaign.queued() == []
    assert not (campaign.folder / "small.sums" / "resubmits").exists()


def test_a_budget_that_one_benchmark_of_a_model_has_not_is_refused_before_anything_is_queued(campaign):
    request = campaign.request(max_walltime="03:00:00", reason="longer")
    with pytest.raises(UsageError, match="it is unlimited already"):
        resubmit_model(request, campaign, clock=MovableClock())
    assert campaign.queued() == []


def test_one_benchmark_that_cannot_be_queued_is_not_in_the_way_of_the_others(campaign):
    answers = iter([None, "8", "9"])

    def submit(submission):
        job_id = next(answers)
        return [Queued(submission.jobs[0].benchmark, job_id, None if job_id else "no room")]

    campaign.executor.submit = submit
    done = resubmit_model(campaign.request(), campaign, clock=MovableClock())
    assert [(each.benchmark, each.job_id) for each in done.done] == [
        ("small.products", "8"),
        ("small.choices", "9"),
    ]
    (problem,) = done.problems
    assert "small.sums of" in problem
    assert "no room" in problem


def test_a_model_whose_benchmarks_have_all_succeeded_has_nothing_left(campaign):
    for name in campaign.names:
        campaign.put(name, link("1.0", collected=collected()))
    with pytest.raises(RefusedError, match="all benchmarks of small have succeeded"):
        resubmit_model(campaign.request(), campaign, clock=MovableClock())
