"""Chains of jobs on the `local` compute type, as they really run."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import collector_reports
from tests.local_jobs import STAND_INS, Workplace, service, until

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.observation import JobState
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.rollouts.scores.certificate import certify
from nemo_gym.rollouts.sequential.plan import StoppingPlan, load_plan
from nemo_runs.durable.journal import read_journal
from nemo_runs.processes import supervise

pytestmark = pytest.mark.e2e

REAL_GYM = Path(sys.executable).parent / "gym"


class Chains(Workplace):
    """Submits resumable jobs and looks at all links of their chains."""

    def chain(self, driver="exit=0", benchmark="arithmetic", *, limits=None, **changes):
        """A resumable job of the stand-in driver; later links obey what stands after ``then``."""
        [job] = self.submit(self.plan(benchmark, driver, budget=Budget(**(limits or {})), **changes))
        return job

    def links(self, job):
        """Every job of the chain that is there, in order, those that wait included."""
        ids = {path.name.rpartition(".")[0] for path in (job.job_dir / "links").iterdir()}
        found = [JobRef(job_id, job.job_dir) for job_id in sorted(ids, key=lambda name: int(name[6:]))]
        self.jobs += [link for link in found if link not in self.jobs]
        return found

    def ends(self, job, *, within=60.0):
        """How each job of a chain ended, once all have."""

        def ended():
            seen = [self.look(link) for link in self.links(job)]
            return seen if all(one.state.final for one in seen) else None

        try:
            return until(ended, within=within)
        except AssertionError:
            raise AssertionError("\n".join(self.said(link) for link in self.links(job))) from None

    def states(self, job):
        """The states alone."""
        return [end.state for end in self.ends(job)]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A place for chains whose looks are quick."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "work"
    folder.mkdir()
    place = Chains(folder)
    place.environ |= {"NEMO_GYM_STOP_SECONDS": "2", "NEMO_GYM_CHAIN_SECONDS": "1"}
    place.grace = 1.0
    yield place
    for job in list(place.jobs):
        place.links(job)
    place.tidy()


def value(job, name, link=None):
    """The value of one file of a link, by default of the first; empty where there is none."""
    path = JobPaths(job.job_dir).link((link or job).job_id).folder / name
    return path.read_text().rstrip("\n") if path.exists() else ""


def report(job, link):
    """What a link's collector said at its end."""
    return collector_reports.read(JobPaths(job.job_dir).link(link.job_id).collected)


def decision(job, link):
    """What a link decided: action and state of the chain, then the reason."""
    return value(job, "decision", link).split("\n")[:2]


def dot(job, name):
    return (job.job_dir / name).read_text().split()


def events(job, name):
    return [event for event in read_journal(JobPaths(job.job_dir).events) if event["event"] == name]


def driven(job):
    """How many drivers ran."""
    return len(events(job, "driver_started"))


def at_work(job):
    """Whether the first driver hears signals by now: it says something once it does."""
    log = JobPaths(job.job_dir).log("driver", job.job_id)
    return log.exists() and "driver output" in log.read_text()


def test_a_run_that_outlives_its_walltime_goes_on_in_the_next_job_from_what_is_recorded(workplace):
    workplace.environ["A_TOKEN"] = "inherited"
    then = "then=show+rows=2+collected=complete,0,5"
    job = workplace.chain(f"{then} rows=3 until-drained collected=drained,75,5", walltime=3)
    first, second, third = workplace.ends(job)
    links = workplace.links(job)
    assert (first.state, first.exit_status) == (JobState.FAILED, 75), workplace.said(job)
    assert (second.state, third.state) == (JobState.SUCCEEDED, JobState.CANCELLED), workplace.said(links[1])
    assert decision(job, links[0]) == ["go_on running", "the first job of its chain"]
    assert decision(job, links[1]) == ["go_on running", "the job before drained ahead of its time limit"]
    assert value(job, "predecessor", links[1]) == links[0].job_id
    assert value(job, "end", links[0]).splitlines()[0] == "drained 75 walltime"
    assert dot(job, ".gym_job_chain") == ["local-1", "local-2"]
    assert dot(job, ".gym_infra_retries") == ["0"]
    ended = supervise.read_exit(JobPaths(job.job_dir).link("local-1").exit)
    assert dot(job, ".gym_accumulated_walltime") == [str(round(ended.ended_at - ended.started_at))]
    assert JobPaths(job.job_dir).log("driver", "local-1") != JobPaths(job.job_dir).log("driver", "local-2")
    logs = {path.name for path in JobPaths(job.job_dir).logs.iterdir()}
    assert logs == {"driver-local-1.log", "driver-local-2.log"}
    told = json.loads((JobPaths(job.job_dir).artifacts / "driver.json").read_text())
    assert told["env"]["NEMO_GYM_JOB_ID"] == "local-2"
    assert told["keys"] == ["A_TOKEN"]
    assert [workplace.left(link) for link in links] == [[], [], []]


def test_a_job_that_is_stopped_at_its_time_limit_is_followed_by_one_that_goes_on(workplace):
    job = workplace.chain("then=collected=complete,0,0 rows=1 deaf", walltime=2)
    assert workplace.states(job) == [JobState.FAILED, JobState.SUCCEEDED, JobState.CANCELLED]
    second = workplace.links(job)[1]
    assert decision(job, second) == [
        "go_on running",
        "the job before ended as TIMEOUT (the time limit was reached)",
    ]
    assert "scheduler=TIMEOUT source=supervisor" in value(job, "decision", second)
    assert dot(job, ".gym_infra_retries") == ["0"]


def test_a_job_that_succeeds_leaves_no_successor_behind(workplace):
    job = workplace.chain("sleep=0.5 collected=complete,0,0")
    waiting = until(lambda: workplace.links(job)[1:])[0]
    seen = workplace.wait(waiting, JobState.QUEUED, JobState.CANCELLED)
    assert seen.reason in {"waiting for the end of local-1", "taken out of the queue by the job before it"}
    assert workplace.states(job) == [JobState.SUCCEEDED, JobState.CANCELLED]
    assert len(events(job, "successor_dropped")) == driven(job) == 1
    assert dot(job, ".gym_job_chain") == ["local-1"]


def test_failures_spend_the_retries_and_the_last_job_exits_with_an_error(workplace):
    job = workplace.chain("exit=3", limits={"max_retries": 2})
    ends = workplace.ends(job)
    assert [end.exit_status for end in ends] == [3, 3, 3, 1]
    assert driven(job) == 3
    last = workplace.links(job)[-1]
    assert decision(job, last)[0] == "fail failed"
    assert "max_retries (2) are used up" in ends[-1].reason
    assert dot(job, ".gym_infra_retries") == ["2"]
    assert dot(job, ".gym_job_chain") == ["local-1", "local-2", "local-3"]


def test_the_walltime_cap_ends_a_chain_without_an_error(workplace):
    job = workplace.chain("rows=1 deaf", walltime=2, limits={"max_walltime": 2})
    first, second = workplace.ends(job)
    assert (first.state, second.state, driven(job)) == (JobState.FAILED, JobState.SUCCEEDED, 1)
    assert decision(job, workplace.links(job)[1])[0] == "stop stopped"


def test_a_chain_that_never_gets_to_work_burns_out(workplace):
    slow = service(shell="sleep 600", argv=None, health_timeout=600)
    job = workplace.chain(services=[slow], walltime=2, limits={"max_links_without_progress": 2})
    ends = workplace.ends(job)
    assert (len(ends), driven(job)) == (3, 0)
    assert "2 jobs in a row recorded nothing new" in ends[-1].reason


def test_after_a_cancellation_no_successor_does_any_work(workplace):
    job = workplace.chain("sleep=600 exit=75", services=[service()], policy="policy")
    until(lambda: at_work(job))
    workplace.executor.cancel([job])
    assert workplace.states(job) == [JobState.CANCELLED] * 2
    assert value(job, "end").splitlines()[0] == "stopped 75 cancel"
    assert (len(workplace.links(job)), driven(job)) == (2, 1)
    assert workplace.left(job) == []


def test_a_cancelled_predecessor_stops_the_chain_also_when_its_successor_is_started(workplace):
    job = workplace.chain("sleep=600")
    until(lambda: at_work(job))
    workplace.executor.cancel([job])
    workplace.ends(job)
    env = {**workplace.environ, "NEMO_GYM_JOB_ID": "local-9", "NEMO_GYM_RESTART": "0", "NEMO_GYM_RUN": "x"}
    env |= {"NEMO_GYM_SUPERVISOR": "1:0", "NEMO_GYM_LOCAL_JOBS": str(workplace.folder)}
    (job.job_dir / "links" / "local-9.0").mkdir()
    script = ["bash", JobPaths(job.job_dir).script, job.job_id]
    ended = subprocess.run(script, env=env, capture_output=True, text=True, check=False)
    (job.job_dir / "links" / "local-9.0").rename(job.job_dir / "other")
    assert ended.returncode == 0
    assert "not going on: the chain was cancelled" in ended.stderr
    assert driven(job) == 1


def test_a_waiting_successor_that_is_cancelled_leaves_the_running_job_alone_and_is_replaced(workplace):
    job = workplace.chain("sleep=600")
    second = until(lambda: workplace.links(job)[1:])[0]
    workplace.wait(second, JobState.QUEUED)
    workplace.executor.cancel([second])
    assert workplace.look(second).state is JobState.CANCELLED
    third = until(lambda: workplace.links(job)[2:])[0]
    assert workplace.wait(third, JobState.QUEUED).reason == "waiting for the end of local-1"
    assert workplace.look(job).state is JobState.RUNNING
    until(lambda: value(job, "queued") == third.job_id)
    workplace.executor.cancel([job])
    assert workplace.states(job) == [JobState.CANCELLED] * 3


def test_a_drain_that_a_user_asked_for_goes_on_in_the_next_job(workplace):
    job = workplace.chain("then=collected=complete,0,0 until-drained")
    until(lambda: at_work(job))
    time.sleep(0.3)
    supervisor = json.loads(value(job, "supervisor.json"))["pid"]
    subprocess.run(["kill", "-s", signal.SIGUSR1.name[3:], str(supervisor)], check=True)
    assert workplace.states(job) == [JobState.FAILED, JobState.SUCCEEDED, JobState.CANCELLED]
    assert value(job, "end").splitlines()[0] == "drained 75 signal"


def test_a_chain_keeps_its_place_among_those_that_may_run_at_once(workplace):
    words = ["then=sleep=0.3+collected=complete,0,0 rows=1 sleep=0.3 exit=1"] * 2
    plans = [workplace.plan(name, text, budget=Budget()) for name, text in zip("ab", words, strict=True)]
    first, second = workplace.submit(*plans, max_parallel=1)
    assert workplace.states(first) == workplace.states(second)
    assert driven(first) == driven(second) == 2
    assert events(first, "job_ended")[-1]["at"] <= events(second, "job_started")[0]["at"]
    ids = {link.job_id for job in (first, second) for link in workplace.links(job)}
    assert len(ids) == 6


SUBMIT = """
compute: {here: {type: local, walltime: "00:00:04"}}
driver:
  gym: GYM
  env: {DRIVER: "then=collected=complete,0,0 rows=1 until-drained"}
  benchmarks:
    arithmetic:
      resumable:
        max_retries: 5            # non-timeout failures to retry (default 3)
        max_walltime: "48:00:00"  # cap on total accumulated walltime (default: none)
      run: {config_paths: [benchmarks/arithmetic/config.yaml], policy_base_url: "http://127.0.0.1:9/v1",
            policy_model_name: tiny}
job: {output_path: runs}
"""


def test_a_submission_is_followed_to_the_end_of_its_chain_and_its_record_names_the_first_job(
    workplace, tmp_path
):
    (tmp_path / "submit.yaml").write_text(SUBMIT.replace("GYM", str(workplace.gym)))
    words = [REAL_GYM, "eval", "submit", "-c", "submit.yaml", "--follow", "--json"]
    done = subprocess.run(
        words, cwd=tmp_path, env=workplace.environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((next((tmp_path / "runs").iterdir()) / "gym-job.json").read_text())
    [entry] = record["benchmarks"]
    job = JobRef(entry["job_id"], Path(entry["job_dir"]))
    assert job.job_id == "local-1"
    assert dot(job, ".gym_job_chain") == ["local-1", "local-2"]
    assert "resume_from_cache: true" in (job.job_dir / "run.yaml").read_text()
    script = JobPaths(job.job_dir).script.read_text()
    assert (
        "GYM_MAX_RETRIES='5'\nGYM_MAX_WALLTIME='172800'\nGYM_MAX_LINKS_WITHOUT_PROGRESS=''\nGYM_RESUMES='yes'\n"
        in script
    )


def run_of(workplace, tmp_path, tasks, **changes):
    """The run configuration of the real collector over sums of the stand-in server."""
    rows = [{"question": f"What is {number} + 1?", "expected_answer": "12"} for number in range(tasks)]
    data = tmp_path / "sums.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = {
        "name": "sums",
        "datasets": {"benchmark": {"jsonl_fpath": str(data)}},
        "prompt": {"user": "{question}"},
        "verifier": {"type": "match", "mode": "numeric"},
    }
    output = JobPaths(workplace.plan().job_dir).rollouts.output
    values = {"benchmark": benchmark, "num_samples_in_parallel": 2, "output_jsonl_fpath": str(output)}
    return {**values, "require_complete": True, "resume_from_cache": True, **changes}


@pytest.mark.slow
def test_the_real_collector_completes_over_several_jobs_with_every_rollout_once(workplace, tmp_path):
    run = run_of(workplace, tmp_path, 60, policy_api_key="host:NEMO_GYM_POLICY_API_KEY", drain_margin_s=1)
    policy = service("policy", "key", "delay=0.15")
    job = workplace.chain(run=run, services=[policy], policy="policy", gym=REAL_GYM, walltime=10)
    ends = workplace.ends(job, within=120)
    links = [
        link for link in workplace.links(job) if (JobPaths(job.job_dir).link(link.job_id).started).exists()
    ]
    assert len(links) >= 2, workplace.said(job)
    assert ends[len(links) - 1].state is JobState.SUCCEEDED, workplace.said(links[-1])
    rows = [json.loads(line) for line in JobPaths(job.job_dir).rollouts.output.read_text().splitlines()]
    assert sorted(row["_ng_task_index"] for row in rows) == list(range(60))
    words = [report(job, link) for link in links]
    assert sum(int(word["new"]) for word in words) == 60
    assert [word["state"] for word in words] == ["drained"] * (len(links) - 1) + ["complete"]
    assert dot(job, ".gym_infra_retries") == ["0"]


@pytest.mark.slow
def test_a_decision_that_falls_in_a_later_job_is_that_of_a_run_without_a_break(workplace, tmp_path):
    """All answers are right, so 70 tasks are needed: more than one job can ask in its time."""
    run = run_of(
        workplace, tmp_path, 200, policy_api_key="host:NEMO_GYM_POLICY_API_KEY", drain_margin_s=1,
        until={"half_width": 0.03},
    )  # fmt: skip
    expected = StoppingPlan.make({"half_width": 0.03}, 0, (200, 1), None).found(lambda _task: ([1.0], []))
    policy = service("policy", "key", "delay=0.15")
    job = workplace.chain(run=run, services=[policy], policy="policy", gym=REAL_GYM, walltime=10)
    workplace.ends(job, within=120)
    links = [
        link for link in workplace.links(job) if JobPaths(job.job_dir).link(link.job_id).started.exists()
    ]
    words = [report(job, link)["state"] for link in links]
    assert words == ["drained"] * (len(words) - 1) + ["complete"]
    assert len(words) >= 2, workplace.said(job)
    plan = load_plan(JobPaths(job.job_dir).rollouts.until)
    assert (plan.decision, plan.decision.outcome) == (expected, "precise")
    certificate = certify(JobPaths(job.job_dir).rollouts)
    assert (certificate.problems, certificate.until["tasks_used"]) == ([], expected.tasks_used)
    assert certificate.present <= expected.tasks_used + 2 * len(words)


def test_rejected_credentials_end_a_chain_at_once_with_their_reason(workplace, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-S", str(STAND_INS / "serve.py"), "0", "tiny", "key"],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().split()[-1]
        run = run_of(
            workplace, tmp_path, 2, policy_base_url=f"http://127.0.0.1:{port}/v1", policy_model_name="tiny"
        )
        job = workplace.chain(run=run, gym=REAL_GYM)
        ends = workplace.ends(job)
        server.kill()
    assert [end.state for end in ends] == [JobState.FAILED, JobState.CANCELLED]
    assert "no retry can help: policy_api_key:" in ends[0].reason
    assert report(job, job)["hopeless"].startswith("policy_api_key:")


def test_missing_data_and_a_wrong_value_end_a_chain_at_once_with_their_reason(workplace, tmp_path):
    wrong = run_of(workplace, tmp_path, 2, policy_base_url="http://127.0.0.1:9/v1", policy_model_name="tiny")
    cases = {
        "limit": {**wrong, "limit": "many"},
        "there is no file": {**wrong, "input_jsonl_fpath": "/gone.jsonl"},
    }
    plans = [
        workplace.plan(f"b{n}", run=run, gym=REAL_GYM, budget=Budget())
        for n, run in enumerate(cases.values())
    ]
    for job, words in zip(workplace.submit(*plans), cases, strict=True):
        ends = workplace.ends(job)
        assert [end.state for end in ends] == [JobState.FAILED, JobState.CANCELLED]
        assert ends[0].reason.startswith("no retry can help: ")
        assert words in ends[0].reason


def test_a_drain_that_a_person_asks_for_stops_the_chain_and_is_no_failure(workplace):
    job = workplace.chain("rows=3 until-drained collected=drained,75,5")
    until(lambda: at_work(job), within=60)
    JobPaths(job.job_dir).link(job.job_id).drain.write_text("Ada L. (on call)\n")
    first, second = workplace.ends(job)
    assert (first.state, second.state) == (JobState.FAILED, JobState.CANCELLED), workplace.said(job)
    assert value(job, "end") == (
        "drained 75 person\ndrained at the request of Ada L. (on call); everything recorded is kept"
    )
    assert driven(job) == 1
