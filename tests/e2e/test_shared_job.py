"""Benchmarks that share the job of their model, as they really run on this machine."""

import io
import json
import os
import signal
import time

import pytest
from tests.local_jobs import Workplace, service, until

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.errors import EXIT_DONE
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.plan.values import SharedBenchmark, Submission
from nemo_gym.orchestration.status.gather import Scope, gather
from nemo_gym.orchestration.status.last_observation import LastSeen
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_gym.orchestration.status.report import assess
from nemo_gym.orchestration.submit import cancel, staging
from nemo_gym.orchestration.submit.follow import follow
from nemo_runs.durable.journal import read_journal

pytestmark = pytest.mark.e2e

MODEL = "small"
COMPLETE = "ask rows=1 collected=complete,0,1"


class Campaign(Workplace):
    """One model, and the benchmarks that run in its job."""

    def begin(self, drivers, *, alone=(), services=None, **changes):
        """Queue benchmarks by name with what their drivers do; those of ``alone`` are not resumable."""
        its = {"services": services or [service()], "policy": "policy", **changes}
        members = [
            self.plan(
                f"{MODEL}.{name}", words, shared=MODEL, budget=None if name in alone else Budget(), **its
            )
            for name, words in drivers.items()
        ]
        names = tuple(SharedBenchmark(plan.benchmark, plan.budget is not None) for plan in members)
        shared = self.plan(MODEL, benchmarks=names, **{**its, "run": None})
        submission = Submission(
            gym_job_id=self.gym_job_id,
            run_dir=shared.job_dir.parent,
            cluster="here",
            jobs=members,
            max_parallel=4,
            config=None,
            shared=[shared],
        )
        staging.stage(submission)
        answers = self.executor.submit(submission)
        assert {answer.error for answer in answers} == {None}
        assert len({answer.job_id for answer in answers}) == 1
        self.first = JobRef(answers[0].job_id, shared.job_dir)
        self.jobs.append(self.first)
        entries = tuple(
            BenchmarkEntry(
                benchmark=plan.benchmark, job_dir=str(plan.job_dir), job_id=answers[0].job_id, model=MODEL
            )
            for plan in members
        )
        self.record = SubmissionRecord(
            gym_job_id=self.gym_job_id, gym_version="1", gym_commit=None, submitted_at="2027-01-15T08:00:00Z",
            run_dir=str(submission.run_dir), cluster="here", executor="local", submitted_by="ada",
            benchmarks=entries,
        )  # fmt: skip

    def groups(self, records):
        yield SubmissionMachine(self.executor, memory=LastSeen()), list(records)

    def paths(self, name):
        return JobPaths(self.first.job_dir.parent / (f"{MODEL}.{name}" if name else MODEL))

    def status(self, name):
        known = gather([self.record], self, scope=Scope(benchmark=f"{MODEL}.{name}"))
        return assess(known[self.gym_job_id, f"{MODEL}.{name}"])

    def links(self):
        """Every job of the model, in order."""
        ids = {path.name.rpartition(".")[0] for path in self.paths("").links.iterdir()}
        found = [JobRef(job_id, self.first.job_dir) for job_id in sorted(ids, key=lambda name: int(name[6:]))]
        self.jobs += [link for link in found if link not in self.jobs]
        return found

    def settle(self):
        """Wait until every job has ended, and say what became of them."""

        def ended():
            seen = [self.look(link) for link in self.links()]
            return seen if all(one.state.final for one in seen) else None

        seen = until(ended, within=90)
        return [f"{one.state}" for one in seen]

    def started(self, name):
        return [e for e in read_journal(self.paths(name).events) if e["event"] == "driver_started"]

    def loads(self):
        return [e for e in read_journal(self.paths("").events) if e["event"] == "service_started"]

    def output(self, name):
        return self.paths(name).output(self.first.job_id).read_text()


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    for name in ("CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "xdg" / name.lower()))
    folder = tmp_path / "work"
    folder.mkdir()
    place = Campaign(folder)
    place.environ |= {
        "NEMO_GYM_STOP_SECONDS": "2",
        "NEMO_GYM_CHAIN_SECONDS": "1",
        "NEMO_GYM_DRAIN_SECONDS": "5",
    }
    place.grace = 1.0
    yield place
    place.links()
    place.tidy()


def test_one_load_serves_all_benchmarks_and_nothing_is_left_in_the_queue(campaign):
    campaign.begin({"a": f"show {COMPLETE}", "b": COMPLETE}, alone=["b"], run={"num_samples_in_parallel": 9})
    assert campaign.settle() == ["SUCCEEDED", "CANCELLED"]
    assert len(campaign.loads()) == 1
    for name in ("a", "b"):
        assert json.loads((campaign.paths(name).artifacts / "answer.json").read_text())
        assert campaign.status(name).state is BenchmarkState.SUCCEEDED
    shown = json.loads((campaign.paths("a").artifacts / "driver.json").read_text())
    assert "++num_samples_in_parallel=4" in shown["argv"]  # nine requests at once, for two benchmarks
    assert shown["keys"] == []


def test_what_failed_goes_on_in_the_next_job_and_what_is_complete_is_not_repeated(campaign):
    late = "then=ask+rows=1+collected=complete,0,1"
    campaign.begin({"good": COMPLETE, "bad": f"{late} exit=3", "once": "exit=4"}, alone=["once"])
    assert campaign.settle() == ["FAILED", "SUCCEEDED", "CANCELLED"]
    assert {name: len(campaign.started(name)) for name in ("good", "bad", "once")} == {
        "good": 1, "bad": 2, "once": 1,
    }  # fmt: skip
    assert campaign.paths("bad").infra_retries.read_text().strip() == "1"
    states = {name: campaign.status(name).state for name in ("good", "bad", "once")}
    assert states == {
        "good": BenchmarkState.SUCCEEDED,
        "bad": BenchmarkState.SUCCEEDED,
        "once": BenchmarkState.FAILED,
    }
    assert "exit status 4" in campaign.status("once").reason


def test_a_cancelled_benchmark_ends_and_the_others_go_on(campaign):
    go_on = campaign.folder / "go-on"
    its = {"kept": f"wait={go_on} {COMPLETE}", "gone": "deaf"}
    campaign.begin(its, run={"num_samples_in_parallel": 9})
    until(lambda: (campaign.paths("gone").artifacts / "deaf").exists() and campaign.started("kept"))
    assert campaign.status("gone").state is BenchmarkState.RUNNING
    request = cancel.CancelRequest(record=campaign.record, benchmark=f"{MODEL}.gone", by="ada", within=30)
    report = cancel.cancel(request, campaign)
    assert report.exit_status == EXIT_DONE
    assert [outcome.state for outcome in report.outcomes] == [BenchmarkState.CANCELLED]
    assert campaign.status("kept").state is BenchmarkState.RUNNING
    share = campaign.paths("kept").link(campaign.first.job_id).parallel
    until(lambda: share.exists() and share.read_text().strip() == "9")  # it had four beside the other one
    go_on.touch()
    campaign.settle()
    assert campaign.status("kept").state is BenchmarkState.SUCCEEDED
    assert campaign.status("gone").state is BenchmarkState.CANCELLED


def test_when_the_job_is_to_drain_all_do_and_all_go_on(campaign):
    late = "then=ask+rows=1+collected=complete,0,1"
    campaign.begin({"a": f"{late} until-drained", "b": f"{late} until-drained"})
    until(lambda: campaign.started("a") and campaign.started("b"))
    supervisor = json.loads(campaign.paths("").link(campaign.first.job_id).supervisor.read_bytes())
    os.kill(supervisor["pid"], signal.SIGUSR1)
    assert campaign.settle()[:2] == ["FAILED", "SUCCEEDED"]
    for name in ("a", "b"):
        assert campaign.status(name).state is BenchmarkState.SUCCEEDED
        assert campaign.paths(name).infra_retries.read_text().strip() == "0"  # a drain is no failure


def test_a_service_that_dies_ends_all_and_counts_a_retry_of_each(campaign):
    late = "then=ask+rows=1+collected=complete,0,1"
    campaign.begin({"a": f"{late} until-drained", "b": f"{late} until-drained"})
    until(lambda: campaign.started("a") and campaign.started("b"))
    os.kill(campaign.loads()[0]["pid"], signal.SIGKILL)
    assert campaign.settle()[:2] == ["FAILED", "SUCCEEDED"]
    for name in ("a", "b"):
        assert "service 'policy' ended with exit status 137" in campaign.output(name)
        assert campaign.paths(name).infra_retries.read_text().strip() == "1"


def test_services_that_do_not_start_are_the_reason_of_every_benchmark(campaign):
    broken = service(argv=["/bin/false"])
    campaign.begin({"a": COMPLETE, "b": COMPLETE}, alone=["a", "b"], services=[broken])
    assert campaign.settle() == ["FAILED"]
    for name in ("a", "b"):
        status = campaign.status(name)
        assert status.state is BenchmarkState.FAILED
        assert "service 'policy' ended with exit status 1 before it was ready" in status.reason
        assert not campaign.started(name)


def test_all_cancelled_before_their_turn_start_nothing(campaign):
    campaign.environ["NEMO_GYM_LOOKUP_SECONDS"] = "1"
    campaign.begin({"a": "deaf", "b": "deaf"})
    request = cancel.CancelRequest(record=campaign.record, benchmark=MODEL, by="ada", within=60)
    assert cancel.cancel(request, campaign).exit_status == EXIT_DONE
    campaign.settle()
    for name in ("a", "b"):
        assert campaign.status(name).state is BenchmarkState.CANCELLED


def test_who_waits_for_the_next_job_keeps_it_when_the_one_still_at_work_is_cancelled(campaign):
    late = "then=ask+rows=1+collected=complete,0,1"
    campaign.begin({"bad": f"{late} exit=3", "gone": "deaf"})
    until((campaign.paths("gone").artifacts / "deaf").exists)
    until(campaign.paths("bad").link(campaign.first.job_id).end.exists)
    request = cancel.CancelRequest(record=campaign.record, benchmark=f"{MODEL}.gone", by="ada", within=60)
    assert cancel.cancel(request, campaign).exit_status == EXIT_DONE
    campaign.settle()
    assert campaign.status("gone").state is BenchmarkState.CANCELLED
    assert campaign.status("bad").state is BenchmarkState.SUCCEEDED


def test_what_was_queued_again_by_itself_is_left_to_its_own_job(campaign):
    late = "then=ask+rows=1+collected=complete,0,1"
    go_on = campaign.folder / "go-on"
    campaign.begin({"bad": f"{late} wait={go_on} exit=3", "again": "exit=4 collected=partial,76,1"})
    until(lambda: campaign.started("bad"))
    until(lambda: campaign.status("again").state is BenchmarkState.FAILED)
    again = campaign.paths("again")
    again.resubmission(1).folder.mkdir(parents=True)
    again.resubmission(1).queued.write_text("local-999999\n")
    own = again.link("local-999999")
    own.folder.mkdir()
    own.started.write_text("4000000000\n")
    go_on.touch()
    campaign.settle()
    assert len(campaign.started("bad")) == 2
    assert {path.name for path in again.links.iterdir()} == {f"{campaign.first.job_id}.0", own.folder.name}


def test_nothing_is_left_of_a_job_whose_supervisor_is_killed(campaign):
    campaign.begin({"a": "deaf", "b": "sleep=600"})
    until(lambda: (campaign.paths("a").artifacts / "deaf").exists() and campaign.started("b"))
    supervisor = json.loads(campaign.paths("").link(campaign.first.job_id).supervisor.read_bytes())
    os.kill(supervisor["pid"], signal.SIGKILL)
    until(lambda: not campaign.left(campaign.first))
    assert {campaign.status(name).state for name in ("a", "b")} == {BenchmarkState.FAILED}


def test_a_stop_of_the_whole_job_leaves_its_drivers_the_time_that_the_scheduler_gives(campaign):
    campaign.environ |= {"NEMO_GYM_DRAIN_SECONDS": "0", "NEMO_GYM_STOP_SECONDS": "0"}
    campaign.grace = 60.0
    campaign.begin({"a": "until-drained", "b": "until-drained"})
    until(lambda: campaign.started("a") and campaign.started("b"))
    supervisor = json.loads(campaign.paths("").link(campaign.first.job_id).supervisor.read_bytes())
    os.kill(supervisor["pid"], signal.SIGTERM)
    campaign.settle()
    for name in ("a", "b"):
        end = campaign.paths(name).link(campaign.first.job_id).end.read_text()
        assert end.split()[:2] == ["stopped", "75"]


def test_a_replica_that_ends_is_counted_for_each_benchmark_and_the_others_answer(campaign):
    now, go_on = campaign.folder / "now", campaign.folder / "go-on"
    campaign.begin(
        {"a": f"show wait={go_on} {COMPLETE}", "b": f"wait={go_on} {COMPLETE}"},
        services=[
            service("policy-0", service="policy", replica=0, head=0),
            service("policy-1", f"die-when={now}", service="policy", replica=1, head=1),
        ],
    )
    until(lambda: (campaign.paths("a").artifacts / "driver.json").exists() and campaign.started("b"))
    now.touch()
    benches = [campaign.paths(name).link(campaign.first.job_id) for name in ("a", "b")]
    until(lambda: all(link.replicas_lost.exists() for link in benches))
    go_on.touch()
    campaign.settle()
    for name, link in zip(("a", "b"), benches, strict=True):
        assert campaign.status(name).state is BenchmarkState.SUCCEEDED
        assert link.replicas_lost.read_text() == "1\n"
    argv = json.loads((campaign.paths("a").artifacts / "driver.json").read_text())["argv"]
    assert sum(word.startswith("+policy_replica_urls=") for word in argv) == 1


def test_who_follows_a_campaign_sees_each_benchmark_end_by_itself(campaign):
    go_on = campaign.folder / "go-on"
    campaign.begin({"kept": f"wait={go_on} {COMPLETE}", "gone": "deaf", "soon": COMPLETE})
    jobs = dict.fromkeys(("kept", "gone", "soon"), campaign.first)
    folders = {name: campaign.paths(name).job_dir for name in jobs}
    until((campaign.paths("gone").artifacts / "deaf").exists)
    campaign.paths("gone").cancelled.write_text("now\nada\n\n")
    stream, deadline = io.StringIO(), time.monotonic() + 90

    def look_again(_seconds):
        said = stream.getvalue()
        assert time.monotonic() < deadline, said
        if "gone  cancelled" in said and "soon  succeeded" in said:
            assert "kept  succeeded" not in said
            go_on.touch()
        time.sleep(0.05)

    ends = follow(campaign.executor, jobs, folders, stream=stream, sleep=look_again)
    assert {name: end.state.value for name, end in ends.items()} == {
        "kept": "SUCCEEDED", "gone": "CANCELLED", "soon": "SUCCEEDED",
    }  # fmt: skip
    assert go_on.exists()
