"""`gym job status|info|logs|cancel|resubmit|watch` as programs, on jobs of the `local` executor."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.local_jobs import Workplace, until

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.evidence import Evidence
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status import logs
from nemo_gym.orchestration.status.gather import Scope, gather
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_gym.orchestration.status.report import assess
from nemo_gym.orchestration.submit.cancel import CancelRequest, cancel
from nemo_runs.durable.journal import read_journal

pytestmark = pytest.mark.e2e

GYM = Path(sys.executable).with_name("gym")
SUBMIT = """
compute:
  here: {type: local, max_parallel: 2}
driver:
  benchmarks:
    one:
      command: |
        echo began
        until [ -e "$NEMO_GYM_BENCH_DIR/end" ]; do sleep 0.05; done
        exit "$(cat "$NEMO_GYM_BENCH_DIR/end")"
    two: {command: "echo two; exit 3"}
job: {output_path: runs}
"""


class Home:
    """A user with an empty home and one submit file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "submit.yaml").write_text(SUBMIT)
        names = {
            "XDG_CACHE_HOME": "cache",
            "XDG_STATE_HOME": "state",
            "XDG_DATA_HOME": "data",
            "HOME": "home",
        }
        self.environ = {**os.environ, **{name: str(folder / sub) for name, sub in names.items()}}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [str(GYM), *arguments],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def gym(self, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == status, stdout + stderr
        assert "Traceback" not in stderr
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def submit(self, *only: str) -> str:
        chosen = [word for name in only for word in ("--only", name)]
        record = json.loads(
            self.gym("eval", "submit", "-c", "submit.yaml", *chosen, "--again", "--json").stdout
        )
        return record["gym_job_id"]

    def folder_of(self, gym_job_id: str, benchmark: str) -> Path:
        return self.folder / "runs" / gym_job_id / benchmark

    def status(self, *arguments: str) -> dict[str, dict[str, object]]:
        """The statuses by benchmark."""
        document = json.loads(self.gym("job", "status", *arguments, "--json").stdout)
        assert document["schema_version"] == 1
        return {
            status["benchmark"]: status
            for submission in document["submissions"]
            for status in submission["benchmarks"]
        }

    def wait(self, gym_job_id: str, benchmark: str, state: str) -> dict[str, object]:
        def look():
            found = self.status(gym_job_id)[benchmark]
            return found if found["state"] == state else None

        return until(look, within=30)

    def let_end(self, gym_job_id: str, benchmark: str, status: int = 0) -> None:
        folder = self.folder_of(gym_job_id, benchmark)
        (folder / "end.new").write_text(str(status))
        (folder / "end.new").rename(folder / "end")


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path)
    yield made
    for run in (tmp_path / "runs").glob("gym-job-*"):
        made.gym("job", "cancel", run.name, "--all", "--yes")


@pytest.mark.slow
def test_a_run_is_watched_followed_ended_and_queued_again_in_place(home):
    gym_job_id = home.submit("one")
    home.wait(gym_job_id, "one", "running")
    assert home.gym("job", "resubmit", gym_job_id, "one", status=5).stderr.startswith(
        f"gym: one of {gym_job_id} is alive (job local-1)"
    )
    watcher = home.start("job", "watch", "latest", "--exit-status")
    follower = home.start("job", "logs", gym_job_id, "one", "-f")
    assert follower.stdout.readline() == "began\n"
    left = home.start("job", "logs", gym_job_id, "one", "-f")
    assert left.stdout.readline() == "began\n"
    left.send_signal(signal.SIGINT)
    assert (left.wait(timeout=120), left.communicate()[1]) == (130, "\ngym: interrupted.\n")
    home.let_end(gym_job_id, "one", 3)
    assert follower.wait(timeout=120) == 0
    assert watcher.wait(timeout=120) == 1
    lines = watcher.stdout.read()
    assert "one  running" in lines
    assert "your code ended it" in lines
    for process in (watcher, follower):
        process.communicate()
    ended = home.status("latest")["one"]
    assert (ended["state"], ended["cause"]) == ("failed", "your code")
    assert ended["next_command"] == f"gym job logs {gym_job_id} one driver --tail 50"
    assert "exit status 3" in ended["reason"]
    home.gym("job", "status", "latest", "--exit-status", status=1)

    (home.folder_of(gym_job_id, "one") / "end").unlink()
    again = json.loads(home.gym("job", "resubmit", "latest", "one", "--reason", "fixed", "--json").stdout)
    assert (again["job_id"], again["resubmission"]) == ("local-2", 1)
    assert home.wait(gym_job_id, "one", "running")["job_id"] == "local-2"
    home.let_end(gym_job_id, "one")
    home.wait(gym_job_id, "one", "succeeded")
    home.gym("job", "status", gym_job_id, "--exit-status")
    described = home.gym("job", "info", gym_job_id).stdout
    assert described.count("driver log: ") == 1
    assert "driver-local-2.log (the last of 2; they are beside it)" in described
    assert "==> driver of job local-1" in home.gym("job", "logs", gym_job_id, "one").stdout
    logs = json.loads(home.gym("job", "logs", gym_job_id, "one", "--json").stdout)["logs"]
    assert [(log["job_id"], log["text"]) for log in logs] == [("local-1", "began\n"), ("local-2", "began\n")]
    info = json.loads(home.gym("job", "info", gym_job_id, "one", "--json").stdout)["benchmarks"][0]
    assert [link["job_id"] for link in info["links"]] == ["local-1", "local-2"]
    assert info["resubmissions"][0]["reason"].endswith(", fixed")
    events = (home.folder_of(gym_job_id, "one") / ".gym_events.jsonl").read_text()
    assert '"event": "resubmitted"' in events
    text = home.gym("job", "info", gym_job_id).stdout
    assert "local-2.0" in text
    assert "resubmitted: local-2 (" in text


def test_a_follower_goes_on_into_the_next_job_and_marks_the_seam(home):
    gym_job_id = home.submit("one")
    home.wait(gym_job_id, "one", "running")
    folder = home.folder_of(gym_job_id, "one")
    follower = home.start("job", "logs", gym_job_id, "one", "-f", "--tail", "1")
    assert follower.stdout.readline() == "began\n"
    # as the next job of a chain leaves it, while the first one is still there
    link = folder / "links" / "local-9.0"
    link.mkdir()
    (link / "started").write_text(f"{time.time():.0f}\n")
    (link / "predecessor").write_text("local-1\n")
    (link / "end").write_text("ended 0 none\n\n")
    (folder / "logs" / "driver-local-9.log").write_text("went on\n")
    seam = follower.stdout.readline()
    assert seam.startswith("==> driver of job local-9 (log 2, started ")
    assert follower.stdout.readline() == "went on\n"
    home.let_end(gym_job_id, "one")
    stdout, _ = follower.communicate(timeout=120)
    assert stdout == ""


@pytest.mark.slow
def test_cancelling_writes_the_tombstone_ends_everything_and_waits_for_it(home):
    gym_job_id = home.submit("one", "two")
    home.wait(gym_job_id, "one", "running")
    home.wait(gym_job_id, "two", "failed")
    assert "nobody to ask; add --yes" in home.gym("job", "cancel", gym_job_id, "--all", status=2).stderr
    said = json.loads(
        home.gym("job", "cancel", gym_job_id, "--all", "--yes", "--reason", "wrong model", "--json").stdout
    )
    assert said["ended"]
    assert {one["benchmark"]: (one["state"], one["asked"]) for one in said["benchmarks"]} == {
        "one": ("cancelled", ["local-1"]),
        "two": ("failed", []),
    }
    folder = home.folder_of(gym_job_id, "one")
    assert (folder / ".gym_cancelled").read_text().splitlines()[2] == "wrong model"
    assert not (home.folder_of(gym_job_id, "two") / ".gym_cancelled").exists()
    assert json.loads((folder / "links" / "local-1.0" / "exit.json").read_text())["state"] == "CANCELLED"
    status = home.status(gym_job_id)["one"]
    assert (status["state"], status["cause"]) == ("cancelled", "a person")
    home.gym("job", "cancel", gym_job_id, "one")
    assert home.gym("job", "resubmit", gym_job_id, "one").stdout.startswith("resubmitted one → job local-")
    assert not (folder / ".gym_cancelled").exists()
    home.wait(gym_job_id, "one", "running")


def test_names_that_are_wrong_are_answered_with_those_that_are_right(home):
    gym_job_id = home.submit("two")
    home.wait(gym_job_id, "two", "failed")
    assert "it has two" in home.gym("job", "logs", gym_job_id, "three", "driver", status=1).stderr
    assert "there are driver, job" in home.gym("job", "logs", gym_job_id, "three", status=1).stderr
    assert "there are driver, job" in home.gym("job", "logs", gym_job_id, "two", "policy", status=1).stderr
    assert (
        "give one benchmark, or --all"
        in home.gym("job", "cancel", gym_job_id, "two", "--all", status=2).stderr
    )
    refused = home.gym("job", "resubmit", gym_job_id, "two", "--max-retries", "9", status=2)
    assert "needs a reason" in refused.stderr
    refused = home.gym("job", "resubmit", gym_job_id, "two", "--max-retries", "9", "--reason", "x", status=2)
    assert "is not resumable" in refused.stderr
    assert home.gym("job", "logs", gym_job_id[:-3], "two", "job", "--tail", "0").stdout == ""
    assert "two" in home.gym("job", "info", gym_job_id, "--config").stdout
    assert "no submission matches" in home.gym("job", "status", "--label", "a=b").stderr
    assert home.status("--live") == {}


def test_two_resubmissions_at_once_queue_one_job(home):
    gym_job_id = home.submit("one")
    home.wait(gym_job_id, "one", "running")
    home.let_end(gym_job_id, "one", 1)
    home.wait(gym_job_id, "one", "failed")
    (home.folder_of(gym_job_id, "one") / "end").unlink()
    statuses: list[int] = []

    def resubmit() -> None:
        process = home.start("job", "resubmit", gym_job_id, "one")
        process.communicate(timeout=120)
        statuses.append(process.returncode)

    threads = [threading.Thread(target=resubmit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [0, 5, 5]
    assert len(list((home.folder_of(gym_job_id, "one") / "links").iterdir())) == 2


# Chains


class Chain(Workplace):
    """A resumable benchmark of this machine, and whoever asks about it."""

    def begin(self, driver: str, **changes: object) -> SubmissionRecord:
        [job] = self.submit(self.plan(driver=driver, budget=Budget(), **changes))
        entry = BenchmarkEntry(benchmark="arithmetic", job_dir=str(job.job_dir), job_id=job.job_id)
        return SubmissionRecord(
            gym_job_id=self.gym_job_id, gym_version="", gym_commit=None, submitted_at="",
            run_dir=str(job.job_dir.parent), cluster="here", executor="local", submitted_by="ada",
            benchmarks=(entry,),
        )  # fmt: skip

    def groups(self, records):
        return [(SubmissionMachine(self.executor), list(records))]

    def known(self, record: SubmissionRecord) -> Evidence:
        known = gather([record], self, scope=Scope(every_job=True))[self.gym_job_id, "arithmetic"]
        jobs = [JobRef(job_id, known.job_dir) for job_id in known.job_ids]
        self.jobs += [job for job in jobs if job not in self.jobs]
        return known


def happened(known: Evidence) -> list[str]:
    return [event["event"] for event in read_journal(known.job_dir / ".gym_events.jsonl")]


@pytest.fixture
def chain(tmp_path):
    place = Chain(tmp_path)
    quick = {"NEMO_GYM_STOP_SECONDS": "2", "NEMO_GYM_CHAIN_SECONDS": "1", "NEMO_GYM_LOOKUP_SECONDS": "0"}
    place.environ |= quick
    place.grace = 1.0
    yield place
    place.tidy()


@pytest.mark.slow
def test_a_chain_is_one_benchmark_whose_state_follows_the_last_job_that_started(chain):
    record = chain.begin(
        "then=rows=2+collected=complete,0,5 rows=3 until-drained collected=drained,75,5", walltime=3
    )

    def finished():
        status = assess(chain.known(record))
        assert status.state in ("queued", "running", "succeeded"), status
        return status if status.state == "succeeded" else None

    status = until(finished, within=60)
    assert (status.links, status.job_id, status.notes) == (2, "local-2", ())
    known = chain.known(record)
    assert [link.name for link in known.links] == ["local-1.0", "local-2.0", "local-3.0"]
    assert known.links[0].end.outcome == "drained"
    assert known.links[1].decision.reason == "the job before drained ahead of its time limit"
    text = b"".join(logs.whole(logs.pieces(known, "driver", LocalRunFiles()), LocalRunFiles())).decode()
    assert [line.partition(" (")[0] for line in text.splitlines()] == [
        "==> driver of job local-1",
        "driver output",
        "==> driver of job local-2",
        "driver output",
    ]


@pytest.mark.slow
def test_after_a_cancellation_no_job_of_a_chain_does_anything(chain):
    record = chain.begin("sleep=600")
    until(lambda: len(chain.known(record).job_ids) == 2)
    until(lambda: "driver_started" in happened(chain.known(record)))
    assert assess(chain.known(record)).state == "running"
    report = cancel(CancelRequest(record=record, benchmark=None, by="ada", within=60), chain)
    assert (report.exit_status, report.outcomes[0].state, report.problems) == (0, "cancelled", ())
    assert report.outcomes[0].asked[:2] == ("local-2", "local-1"), "what waits goes first"
    known = chain.known(record)
    assert known.alive() == ()
    assert [link.started is not None for link in known.links] == [True, False]
    assert happened(known).count("driver_started") == 1
    assert all(chain.left(job) == [] for job in chain.jobs)


@pytest.mark.slow
def test_a_resubmission_goes_on_with_a_raised_budget_after_the_chain_has_failed(chain):
    record = chain.begin("rows=1 exit=1", walltime=60)
    until(lambda: assess(chain.known(record)).state == "failed", within=60)
    known = chain.known(record)
    status = assess(known)
    assert (status.cause, known.retries) == ("your code", 3)
    assert "max_retries (3) are used up" in status.reason
    folder = known.job_dir / "resubmits" / "1"
    folder.mkdir(parents=True)
    (folder / "max_retries").write_text("5\n")
    plan = chain.plan(driver="rows=1 exit=1", budget=Budget(), walltime=60)
    [answer] = chain.executor.submit(chain.submission(plan))
    (folder / "queued").write_text(f"{answer.job_id}\n")
    until(lambda: assess(chain.known(record)).job_id != status.job_id, within=60)
    until(lambda: assess(chain.known(record)).state == "failed", within=60)
    assert "max_retries (5) are used up" in assess(chain.known(record)).reason
