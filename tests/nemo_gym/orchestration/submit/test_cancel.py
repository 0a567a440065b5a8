"""Cancelling: the wish first, what waits before what runs, until two looks find nothing."""

import json
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.evidence_files import ID, collected, link

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.errors import EXIT_ALIVE, EXIT_DONE, DataError, GymError, NotOursError, StillAliveError
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_gym.orchestration.submit.cancel import CancelReport, CancelRequest, cancel
from nemo_runs.clock import MovableClock
from nemo_runs.errors import DiskFullError
from nemo_runs.processes import trees
from nemo_slurm.errors import CommandFailedError, NotReachableError


class Cluster(FakeJobExecutor):
    """Ends jobs a look after they were asked, and can do worse."""

    def __init__(self):
        super().__init__(FakeQueue())
        self.calls: list[list[str]] = []
        self.dying: list[str] = []
        self.on_cancel = lambda job_id: None
        self.deaf, self.silent, self.beyond = set(), "", ""

    def observe(self, jobs):
        if self.silent:
            return {job.job_id: JobObservation(JobState.UNKNOWN, self.silent, silent=True) for job in jobs}
        seen = super().observe(jobs)
        for job_id in self.dying:
            self.cluster.cancel(job_id)
        return seen

    def cancel(self, jobs):
        self.calls.append([job.job_id for job in jobs])
        for job in jobs:
            of_model = job.job_dir.parent.glob(f"{job.job_dir.name}.*")
            folders = [job.job_dir] if job.job_dir.exists() else list(of_model)
            assert all((folder / ".gym_cancelled").exists() for folder in folders), (
                "the tombstone comes first"
            )
            self.on_cancel(job.job_id)
            self.dying += [job.job_id] if job.job_id not in self.deaf else []
        if self.beyond:
            raise GymError(self.beyond)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


class Place:
    """Two benchmarks of one submission, a cluster, and a clock that sleeping moves."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.executor, self.clock = folder, Cluster(), MovableClock()
        self.site = SubmissionMachine(self.executor)
        self.ids: dict[str, str] = {}
        self.models: dict[str, str] = {}

    def groups(self, records):
        return [(self.site, list(records))]

    def put(self, benchmark: str, *files: dict[str, str], **states: str) -> Path:
        """A benchmark's files and its jobs, by id without the leading ``j``."""
        job_dir = self.folder / benchmark
        for name, text in (item for some in files for item in some.items()):
            (job_dir / name).parent.mkdir(parents=True, exist_ok=True)
            (job_dir / name).write_text(text)
        job_dir.mkdir(exist_ok=True)
        for job, state in states.items():
            self.executor.cluster.jobs[job[1:]] = JobObservation(JobState(state), "")
        self.ids.setdefault(benchmark, next(iter(states))[1:])
        return job_dir

    def cancel(self, benchmark: str | None = None, within: float = 60.0) -> CancelReport:
        entries = tuple(
            BenchmarkEntry(
                benchmark=name, job_dir=str(self.folder / name), job_id=job, model=self.models.get(name)
            )
            for name, job in self.ids.items()
        )
        record = SubmissionRecord(
            gym_job_id=ID, gym_version="", gym_commit=None, submitted_at="", run_dir=str(self.folder),
            cluster="c", executor="fake", submitted_by="ada", benchmarks=entries,
        )  # fmt: skip
        request = CancelRequest(
            record=record, benchmark=benchmark, by="ada", why="wrong model", within=within
        )
        return cancel(request, self, clock=self.clock, sleep=self.clock.advance)


def test_what_waits_is_ended_before_what_runs_over_all_benchmarks(place):
    place.put("a", link("1.0", queued="2"), j1="RUNNING", j2="QUEUED")
    place.put("b", link("5.0", queued="6"), j5="RUNNING", j6="QUEUED")
    report = place.cancel()
    assert place.executor.calls[:2] == [["2", "6"], ["1", "5"]]
    assert report.exit_status == EXIT_DONE
    assert [(one.state, one.asked) for one in report.outcomes] == [
        ("cancelled", ("2", "1")),
        ("cancelled", ("6", "5")),
    ]


def of_two_models(place):
    for name, job in {"small.a": "1", "small.b": "1", "large.a": "2"}.items():
        place.put(name, link(f"{job}.0"), **{f"j{job}": "RUNNING"})
        place.models[name] = name.partition(".")[0]


def test_a_model_of_a_campaign_is_ended_by_its_name_and_the_others_go_on(place):
    of_two_models(place)
    report = place.cancel("small")
    assert report.exit_status == EXIT_DONE
    assert [(one.benchmark, one.state) for one in report.outcomes] == [
        ("small.a", "cancelled"),
        ("small.b", "cancelled"),
    ]
    assert place.executor.calls == [["1"]]
    assert not (place.folder / "large.a" / ".gym_cancelled").exists()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smal", " (did you mean 'small'?)"),
        ("a", " (did you mean one of: 'small.a', 'large.a'?)"),
        ("", "; it has small.a, small.b, large.a; its models are small, large"),
    ],
)
def test_a_name_of_neither_a_benchmark_nor_a_model_ends_nothing(place, name, hint):
    of_two_models(place)
    with pytest.raises(GymError) as refused:
        place.cancel(name)
    assert str(refused.value) == f"{ID} has no benchmark '{name}'{hint}."
    assert place.executor.calls == []
    place.models.clear()
    with pytest.raises(GymError, match=rf"has no benchmark '{name}'( \(did you mean|; it has [a-z., ]*$)"):
        place.cancel(name)


def test_the_tombstone_says_when_who_and_why_and_the_journal_too(place):
    job_dir = place.put("a", link("1.0"), j1="RUNNING")
    place.cancel()
    assert (job_dir / ".gym_cancelled").read_text().splitlines() == [
        "2027-01-15T08:00:00.000Z",
        "ada",
        "wrong model",
    ]
    event = json.loads((job_dir / ".gym_events.jsonl").read_text())
    assert (event["event"], event["by"], event["why"]) == ("cancel_asked", "ada", "wrong model")


def test_a_successor_that_a_dying_job_still_queues_is_found_and_ended(place):
    job_dir = place.put("a", link("1.0"), j1="RUNNING")

    def queue_one_more(job_id):
        if job_id == "1":
            (job_dir / "links" / "1.0" / "queued").write_text("2\n")
            place.executor.cluster.jobs["2"] = JobObservation(JobState.QUEUED, "")

    place.executor.on_cancel = queue_one_more
    report = place.cancel()
    assert report.outcomes[0].asked == ("1", "2")
    assert place.executor.cluster.jobs["2"].state is JobState.CANCELLED


def test_a_successor_that_appears_after_everything_looked_final_is_found_too(place):
    job_dir = place.put("a", link("1.0"), j1="RUNNING")
    executor, looks = place.executor, []
    original = executor.observe

    def observe(jobs):
        seen = original(jobs)
        looks.append(1)
        if seen["1"].state is JobState.CANCELLED and not (job_dir / "links" / "1.0" / "queued").exists():
            (job_dir / "links" / "1.0" / "queued").write_text("2\n")
            executor.cluster.jobs["2"] = JobObservation(JobState.QUEUED, "")
        return seen

    executor.observe = observe
    assert place.cancel().exit_status == EXIT_DONE
    assert executor.cluster.jobs["2"].state is JobState.CANCELLED


def test_jobs_that_do_not_end_are_named_and_the_status_is_four(place):
    place.put("a", link("1.0"), j1="RUNNING")
    place.executor.deaf = {"1"}
    report = place.cancel(within=40)
    assert (report.exit_status, report.outcomes[0].alive) == (EXIT_ALIVE, ("1",))
    assert 39 <= place.clock.monotonic() <= 46
    assert len(place.executor.calls) == 3, "asked again every 15 s, not at every look"
    assert not report.to_json()["ended"]


def test_during_silence_the_tombstone_is_written_and_nobody_claims_an_end(place):
    job_dir = place.put("a", link("1.0", queued="2"), j1="RUNNING", j2="QUEUED")
    place.executor.silent = "slurmctld gave no answer"
    report = place.cancel(within=5)
    assert (job_dir / ".gym_cancelled").exists()
    assert (report.exit_status, report.outcomes[0].unsure) == (EXIT_ALIVE, ("1", "2"))


def test_a_job_beyond_reach_is_not_called_ended(place):
    place.put("a", link("1.0"), j1="UNKNOWN")
    place.executor.beyond = "1: kept by a supervisor on another machine"
    report = place.cancel(within=2)
    assert (report.exit_status, report.outcomes[0].unsure) == (EXIT_ALIVE, ("1",))
    assert report.problems == ("1: kept by a supervisor on another machine",)


def test_a_waiting_job_that_is_not_proven_to_be_of_the_run_is_left_alone_and_the_wish_stays(place):
    job_dir = place.put("a", j1="QUEUED")

    def cancel(_jobs):
        raise NotOursError("job 1 is left alone; it ends by itself as soon as it starts", ["1"])

    place.executor.cancel = cancel
    report = place.cancel(within=20)
    (outcome,) = report.outcomes
    assert (report.exit_status, outcome.alive, outcome.left_alone) == (EXIT_ALIVE, ("1",), ("1",))
    assert outcome.asked == ()
    assert (job_dir / ".gym_cancelled").exists()
    assert report.problems == ("job 1 is left alone; it ends by itself as soon as it starts",)


def test_what_has_ended_is_left_as_it_is_but_a_leftover_successor_goes(place):
    job_dir = place.put("done", link("1.0", collected=collected(), end="ended 0 none\n"), j1="SUCCEEDED")
    report = place.cancel("done")
    assert (report.outcomes[0].state, report.outcomes[0].asked) == ("succeeded", ())
    assert not (job_dir / ".gym_cancelled").exists()
    place.put("left", link("3.0", collected=collected(), queued="4"), j3="SUCCEEDED", j4="QUEUED")
    report = place.cancel("left")
    assert (report.outcomes[0].state, report.outcomes[0].asked) == ("succeeded", ("4",))


def test_a_successor_that_vanished_long_ago_is_no_reason_for_doubt(place):
    place.put(
        "a", link("1.0", queued="2", end="drained 75 walltime\n"), link("3.0"), j1="FAILED", j3="RUNNING"
    )
    assert place.cancel().exit_status == EXIT_DONE


def test_nothing_is_cancelled_when_the_wish_cannot_be_written(place):
    class Away(LocalRunFiles):
        def write(self, path, data):
            raise NotReachableError("the host gave no answer")

    place.put("a", link("1.0"), j1="RUNNING")
    place.site = SubmissionMachine(place.executor, files=Away())
    with pytest.raises(NotReachableError):
        place.cancel()
    assert place.executor.calls == []


class Full(LocalRunFiles):
    """Files of a disk on which the named ones find no room; half of a tombstone may be left of it."""

    def __init__(self, *names, kept=()):
        self.names, self.kept = names, kept

    def _check(self, path):
        if any(str(path).endswith(name) for name in self.names):
            raise DiskFullError(f"{path}: No space left on device")

    def write(self, path, data):
        self._check(path)
        super().write(path, data)

    def append(self, path, line):
        self._check(path)
        super().append(path, line)

    def remove(self, path):
        if any(str(path).endswith(name) for name in self.kept):
            raise DataError(f"{path} cannot be changed (Read-only file system).")
        super().remove(path)


def test_on_a_full_disk_no_benchmark_is_cancelled_and_it_is_said_that_all_still_run(place):
    first = place.put("a", link("1.0"), j1="RUNNING")
    place.put("b", link("5.0"), j5="RUNNING")
    place.site = SubmissionMachine(place.executor, files=Full("b/.gym_cancelled"))
    with pytest.raises(StillAliveError) as caught:
        place.cancel()
    said = str(caught.value)
    assert (
        "No space left on device), so nothing was cancelled: a, b still run or wait; free disk space" in said
    )
    assert said.endswith("give the command again.")
    assert caught.value.exit_status == EXIT_ALIVE
    assert place.executor.calls == []
    assert not (first / ".gym_cancelled").exists()
    assert not (first / ".gym_events.jsonl").exists()
    place.site = SubmissionMachine(place.executor)
    assert place.cancel().exit_status == EXIT_DONE


def test_a_wish_that_can_neither_be_written_for_all_nor_taken_back_is_told(place):
    place.put("a", link("1.0"), j1="RUNNING")
    place.put("b", link("5.0"), j5="RUNNING")
    place.site = SubmissionMachine(place.executor, files=Full("b/.gym_cancelled", kept=("a/.gym_cancelled",)))
    with pytest.raises(StillAliveError, match="but a will not go on after the job that runs now: a, b still"):
        place.cancel()


def test_a_wish_that_another_machine_cannot_write_is_told_alike(place):
    class There(LocalRunFiles):
        def write(self, path, data):
            raise CommandFailedError(["cat"], 1, "cat: write error: No space left on device", where="far")

    place.put("a", link("1.0"), j1="RUNNING")
    place.site = SubmissionMachine(place.executor, files=There())
    with pytest.raises(
        StillAliveError, match="a still runs or waits; free disk space and give the command again"
    ):
        place.cancel()


def test_a_journal_that_finds_no_room_holds_no_cancellation_up(place):
    place.put("a", link("1.0"), j1="RUNNING")
    place.site = SubmissionMachine(place.executor, files=Full(".gym_events.jsonl"))
    report = place.cancel()
    assert report.exit_status == EXIT_DONE
    assert "does not say that it was cancelled" in report.problems[0]
    assert place.executor.cluster.jobs["1"].state is JobState.CANCELLED


def test_nobody_claims_that_nothing_is_alive_where_the_files_cannot_be_read(place):
    class Away(LocalRunFiles):
        def look(self, job_dirs):
            raise NotReachableError("the host gave no answer")

        def write(self, path, data):
            raise NotReachableError("the host gave no answer")

    place.put("a", link("1.0", queued="2"), link("2.0"), j1="FAILED", j2="RUNNING")
    place.site = SubmissionMachine(place.executor, files=Away())
    with pytest.raises(NotReachableError):
        place.cancel()


def test_a_job_that_is_being_queued_again_in_that_moment_is_waited_for_and_ended(place):
    owner = json.dumps(trees.identify().to_json())
    job_dir = place.put(
        "gpqa", link("1.0", end="failed 1 none\nx"), {"resubmits/1/owner": owner}, j1="FAILED"
    )
    looks = 0
    observe = place.executor.observe

    def observed(jobs):
        nonlocal looks
        looks += 1
        if looks == 3:
            # as a resubmission does it, which does not know of the wish
            (job_dir / ".gym_cancelled").unlink()
            place.executor.cluster.jobs["2"] = JobObservation(JobState.RUNNING, "")
            (job_dir / "resubmits" / "1" / "queued").write_text("2\n")
        return observe(jobs)

    place.executor.observe = observed
    report = place.cancel()
    assert (report.exit_status, report.outcomes[0].asked) == (EXIT_DONE, ("2",))
    assert (job_dir / ".gym_cancelled").exists()


def test_an_attempt_to_queue_again_that_was_killed_is_not_waited_for(place):
    owner = json.dumps({**trees.identify().to_json(), "start_time": 1})
    job_dir = place.put(
        "gpqa", link("1.0", end="failed 1 none\nx"), {"resubmits/1/owner": owner}, j1="FAILED"
    )
    assert place.cancel().exit_status == EXIT_DONE
    assert not (job_dir / ".gym_cancelled").exists()
