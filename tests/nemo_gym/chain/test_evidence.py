"""Gathering evidence: one look and one observation a machine, and what is remembered when one is silent."""

import dataclasses
import time
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.evidence_files import ID, link, progress

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.errors import DataError
from nemo_gym.orchestration.executors.base import JobRef, UnrecordedJob
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records.run_files import HostRunFiles, LocalRunFiles
from nemo_gym.orchestration.status.gather import Scope, gather
from nemo_gym.orchestration.status.last_observation import LastSeen
from nemo_gym.orchestration.status.link_files import parse
from nemo_gym.orchestration.status.machines import SubmissionMachine, SubmissionMachines
from nemo_gym.orchestration.status.report import assess, of_submissions
from nemo_gym.rollouts.collect.exit_report import ExitReport
from nemo_runs.clock import MovableClock
from nemo_slurm.errors import NotReachableError
from nemo_slurm.hosts import LocalHost


class Counting(FakeJobExecutor):
    """Says how often and about which jobs it was asked; may be made silent."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.asked, self.silent = [], ""

    def observe(self, jobs):
        self.asked.append([job.job_id for job in jobs])
        if self.silent:
            return {job.job_id: JobObservation(JobState.UNKNOWN, self.silent, silent=True) for job in jobs}
        return super().observe(jobs)


class One:
    """A single machine."""

    def __init__(self, site):
        self.site = site

    def groups(self, records):
        return [(self.site, list(records))]


@pytest.fixture
def executor():
    return Counting(FakeQueue())


def record(folder, *benchmarks, gym_job_id=ID):
    entries = tuple(
        BenchmarkEntry(benchmark=name, job_dir=str(folder / name), job_id=job) for name, job in benchmarks
    )
    return SubmissionRecord(
        gym_job_id=gym_job_id, gym_version="", gym_commit=None, submitted_at="", run_dir=str(folder),
        cluster="c", executor="fake", submitted_by="ada", benchmarks=entries,
    )  # fmt: skip


def write(folder: Path, *files):
    for name, text in (item for some in files for item in some.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


WEIRD = 'run  it\'s "a" $(touch pwned)\n;'


@pytest.mark.parametrize("files", [LocalRunFiles(), HostRunFiles(LocalHost())], ids=["here", "elsewhere"])
def test_the_small_files_of_many_folders_are_read_in_one_look(files, tmp_path):
    first, second, gone = tmp_path / WEIRD / "a", tmp_path / "b", tmp_path / "gone"
    wanted = {
        **link("12.0", queued="13;main\n"),
        **progress(),
        ".gym_job_chain": "12\n",
        "resubmits/1/reason": "why\n",
        "artifacts/rollouts_coverage.json": "{}",
    }
    write(first, wanted, {"links/12.0/large": "x" * 70_000, "logs/driver-12.log": "no", "job.sh": "no"})
    write(first, {".gym_events.jsonl": "no", "artifacts/rollouts.jsonl": "no"})
    second.mkdir()
    look = files.look([first, second, gone])
    assert look.folders == {first: wanted, second: {}}
    assert abs(look.now - time.time()) < 60
    assert files.look([]).folders == {}


@pytest.mark.parametrize("files", [LocalRunFiles(), HostRunFiles(LocalHost())], ids=["here", "elsewhere"])
def test_files_are_claimed_written_appended_read_and_removed(files, tmp_path):
    folder = tmp_path / WEIRD
    folder.mkdir()
    assert [files.claim(folder / "resubmits" / "1") for _ in range(2)] == [True, False]
    files.write(folder / "one", b"a\xff")
    files.append(folder / "journal", b'{"a":"it\'s"}\n')
    files.append(folder / "journal", b'{"b":2}\n')
    assert files.read(folder / "journal") == b'{"a":"it\'s"}\n{"b":2}\n'
    assert files.read(folder / "one", offset=1, limit=1) == b"\xff"
    assert files.sizes(folder) == {"one": 2, "journal": 21}
    assert files.sizes(folder / "nowhere") == {}
    files.remove(folder / "one")
    files.remove(folder / "one")
    with pytest.raises(FileNotFoundError):
        files.read(folder / "one")


def test_links_are_ordered_by_their_start_and_those_that_wait_come_last():
    files = {**link("9.0", started=300), **link("10.1", started=200), **link("10.0", started=100)}
    values = parse({**files, **link("11.0", started=None, predecessor="9")})
    assert [found.name for found in values["links"]] == ["10.0", "10.1", "9.0", "11.0"]


@pytest.mark.slow
def test_five_hundred_submissions_take_one_observation(executor, tmp_path):
    records = []
    for number in range(500):
        folder = tmp_path / str(number)
        write(folder / "gpqa", link(f"{number}.0", end="drained 75 walltime\n", queued=f"{number + 1000}"))
        write(folder / "gpqa", link(f"{number + 1000}.0", decision="go_on running\n\n"), progress(age=0.0))
        executor.cluster.jobs[f"{number + 1000}"] = JobObservation(JobState.RUNNING, "")
        records.append(record(folder, ("gpqa", str(number)), gym_job_id=f"gym-job-{number}"))
    found = of_submissions(gather(records, One(SubmissionMachine(executor))).values())
    assert len(executor.asked) == 1
    assert {submission.state for submission in found} == {"running"}


def test_only_jobs_on_which_the_state_depends_are_asked_about_unless_all_are_wanted(executor, tmp_path):
    write(tmp_path / "gpqa", link("1.0", started=100, queued="2"), link("2.0", started=200, queued="3"))
    whole = record(tmp_path, ("gpqa", "1"))
    gather([whole], One(SubmissionMachine(executor)))
    gather([whole], One(SubmissionMachine(executor)), scope=Scope(every_job=True))
    assert executor.asked == [["2", "3"], ["1", "2", "3"]]


def test_an_end_that_was_seen_is_not_asked_for_again(executor, tmp_path):
    write(tmp_path / "gpqa", link("1.0"))
    executor.cluster.jobs["1"] = JobObservation(JobState.FAILED, "it broke", word="FAILED")
    site = One(SubmissionMachine(executor))
    for _ in range(2):
        known = gather([record(tmp_path, ("gpqa", "1"))], site, clock=MovableClock())[ID, "gpqa"]
        assert known.seen["1"].observation.reason == "it broke"
    assert executor.asked == [["1"]]


def test_a_job_whose_submitter_never_heard_of_it_is_shown_as_long_as_it_waits(executor, tmp_path):
    write(tmp_path / "gpqa", {"job.sh": ""})
    whole = record(tmp_path, ("gpqa", None))
    assert assess(gather([whole], One(SubmissionMachine(executor)))[ID, "gpqa"]).state == "failed"
    executor.cluster.jobs["7"] = JobObservation(JobState.QUEUED, "Priority")
    executor.cluster.unheard[UnrecordedJob(tmp_path / "gpqa")] = "7"
    known = gather([whole], One(SubmissionMachine(executor)))[ID, "gpqa"]
    assert (assess(known).state, known.job_ids) == ("queued", ("7",))
    # once it has begun, its own files tell of it, and nobody is asked
    write(tmp_path / "gpqa", link("7.0"))
    executor.cluster.jobs["7"] = JobObservation(JobState.RUNNING, "")
    executor.look_for = None
    assert assess(gather([whole], One(SubmissionMachine(executor)))[ID, "gpqa"]).state == "running"


def test_a_queue_that_does_not_answer_hides_no_other_job(executor, tmp_path):
    def look_for(_jobs):
        raise NotReachableError("the host gave no answer")

    executor.look_for = look_for
    write(tmp_path / "gpqa", link("1.0"))
    write(tmp_path / "aime", {"job.sh": ""})
    executor.cluster.jobs["1"] = JobObservation(JobState.RUNNING, "")
    found = gather([record(tmp_path, ("gpqa", "1"), ("aime", None))], One(SubmissionMachine(executor)))
    assert [assess(known).state for known in found.values()] == ["running", "failed"]


def test_silence_shows_what_was_seen_last_with_its_age_and_recovery_is_immediate(executor, tmp_path):
    clock = MovableClock()
    write(tmp_path / "gpqa", link("1.0", started=clock.seconds()))
    executor.cluster.jobs["1"] = JobObservation(JobState.RUNNING, "")
    path = tmp_path / "seen.json"

    def look():
        site = SubmissionMachine(executor, memory=LastSeen(path))  # another command each time
        return assess(gather([record(tmp_path, ("gpqa", "1"))], One(site), clock=clock)[ID, "gpqa"])

    assert (look().state, look().state_age_s) == ("running", None)
    executor.silent = "slurmctld gave no answer"
    clock.advance(3600)
    status = look()
    assert (status.state, status.state_age_s, status.silent) == (
        "running",
        3600.0,
        "slurmctld gave no answer",
    )
    executor.silent = ""
    assert (look().state, look().silent) == ("running", "")


def test_a_machine_that_cannot_be_reached_loses_nothing(executor, tmp_path):
    class Away(LocalRunFiles):
        def look(self, job_dirs):
            raise NotReachableError("the host gave no answer")

    memory = LastSeen()
    memory.remember(JobRef("1", tmp_path / "gpqa"), JobObservation(JobState.RUNNING, ""), 0.0)
    executor.silent = "the host gave no answer"
    site = SubmissionMachine(executor, files=Away(), memory=memory)
    status = assess(gather([record(tmp_path, ("gpqa", "1"))], One(site))[ID, "gpqa"])
    assert (status.state, status.silent) == ("running", "the host gave no answer")
    assert status.notes == ()


@pytest.mark.parametrize(
    ("remembered", "word", "state"),
    [(JobState.FAILED, "TIMEOUT", "unknown"), (JobState.CANCELLED, "CANCELLED", "unknown"),
     (JobState.SUCCEEDED, "COMPLETED", "unknown")],
)  # fmt: skip
def test_of_a_chain_whose_files_cannot_be_read_the_end_of_its_first_job_is_no_end(
    executor, tmp_path, remembered, word, state
):
    class Away(LocalRunFiles):
        def look(self, job_dirs):
            raise NotReachableError("the host gave no answer")

    memory = LastSeen()
    memory.remember(JobRef("1", tmp_path / "gpqa"), JobObservation(remembered, "", word=word), 0.0)
    site = SubmissionMachine(executor, files=Away(), memory=memory)
    status = assess(gather([record(tmp_path, ("gpqa", "1"))], One(site))[ID, "gpqa"])
    assert status.state == state
    assert word in status.reason
    assert status.silent == "the host gave no answer"


def test_an_executor_that_raises_is_silent(executor, tmp_path):
    def observe(_jobs):
        raise DataError("no answer that could be read")

    executor.observe = observe
    write(tmp_path / "gpqa", link("1.0"))
    status = assess(gather([record(tmp_path, ("gpqa", "1"))], One(SubmissionMachine(executor)))[ID, "gpqa"])
    assert (status.state, status.silent) == ("running", "no answer that could be read")


def test_a_missing_folder_is_said(executor, tmp_path):
    status = assess(gather([record(tmp_path, ("gpqa", "1"))], One(SubmissionMachine(executor)))[ID, "gpqa"])
    assert status.state == "unknown"
    assert status.notes == (f"there is no folder {tmp_path / 'gpqa'} on this machine",)


def test_a_flapping_scheduler_restarts_nothing_and_fails_nothing(executor, tmp_path):
    write(tmp_path / "gpqa", link("1.0"), progress(age=0.0), {"links/1.0/collected": "{torn"})
    executor.cluster.jobs["1"] = JobObservation(JobState.RUNNING, "")
    site, states = One(SubmissionMachine(executor)), set()
    for number in range(50):
        executor.silent = "timed out" if number % 2 else ""
        states.add(assess(gather([record(tmp_path, ("gpqa", "1"))], site)[ID, "gpqa"]).state)
    assert states == {"running"}


def test_a_memory_that_is_damaged_is_no_memory(tmp_path):
    path = tmp_path / "seen.json"
    path.write_text('{"1 /x": {"state": "NO SUCH", "reason": "", "at": 1}, "2": 3, "torn')
    assert LastSeen(path).of_job(JobRef("1", Path("/x"))) is None
    path.write_text('{"1 /x": {"state": "NO SUCH", "reason": "", "at": 1}, "2 /x": 3}')
    assert LastSeen(path).of_job(JobRef("1", Path("/x"))) is None


@pytest.mark.parametrize("form", [ExitReport.lines, ExitReport.line])
def test_what_a_collector_said_is_read_as_the_chain_reads_it(form):
    said = form(ExitReport("incomplete", 75, 10, 4, 4, "the key was rejected")) + "\n"
    [found] = parse(link("1.0", collected=said))["links"]
    assert (found.collected.recorded, found.collected.hopeless) == (4, "the key was rejected")
    assert not found.collected.complete


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, text) for text in ("nan", "inf", "1e400", "-1", "9" * 5000)
          for name in (".gym_accumulated_walltime", "links/1.0/started", "resubmits/1/max_retries")),
        ("links/1.0/exit.json", "[" * 5000),
        ("artifacts/progress.json", "{" * 5000),
        ("links/1.0/collected", "{torn"),
        ("links/1.0/collected", ""),
        ("links/1.0/collected", "state comp"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_right_is_a_problem_and_no_crash(name, text):
    found = parse({name: text})
    assert len(found["problems"]) == 1
    assert name.rpartition("/")[2] in found["problems"][0]


def test_links_follow_their_predecessors_whatever_the_clocks_of_two_nodes_say():
    files = link("9.0", started=5000, predecessor="") | link("10.0", started=400, predecessor="9\n")
    files |= link("10.1", started=300, predecessor="9\n") | link("12.0", started=4000, predecessor="10\n")
    files |= link("11.0", started=None, predecessor="12\n")
    assert [one.name for one in parse(files)["links"]] == ["9.0", "10.0", "10.1", "12.0", "11.0"]
    circle = link("1.0", started=1, predecessor="2") | link("2.0", started=2, predecessor="1")
    assert {one.name for one in parse(circle)["links"]} == {"1.0", "2.0"}


def test_a_chain_that_was_queued_again_is_the_newer_one_also_within_one_second():
    files = link("8.0", started=7, predecessor="") | link("9.0", started=7, predecessor="8\n")
    files |= link("10.0", started=7, predecessor="9\n") | link("11.0", started=7, predecessor="\n")
    files |= link("12.0", started=7, predecessor="11\n")
    assert [one.name for one in parse(files)["links"]] == ["8.0", "9.0", "10.0", "11.0", "12.0"]


def test_absurd_numbers_in_what_a_collector_says_are_not_believed():
    absurd = '{"state":"complete","status":0,"expected":Infinity,"recorded":1,"new":1,"hopeless":null}'
    assert parse(link("1.0", collected=absurd))["links"][0].collected is None
    absurd = "state complete\nstatus 0\nexpected inf\nrecorded 1\nnew 1\n"
    assert parse(link("1.0", collected=absurd))["links"][0].collected is None
    assert parse(progress(done=10**400))["progress"] is None
    assert parse(progress(eta_s=float("inf"), updated_at=float("nan")))["progress"].eta is None
    assert parse({"resubmits/²/queued": "1\n"})["resubmissions"] == ()
    assert parse(link("1.0", end="failed ² none\nx"))["links"][0].end.status == 1


@pytest.mark.parametrize("changes", [{"executor": "of a newer gym"}, {"hostname": "-oProxyCommand=x"}])
def test_a_record_that_names_no_machine_does_not_hide_the_others(tmp_path, changes):
    (tmp_path / "one").mkdir()
    strange = dataclasses.replace(record(tmp_path, ("one", "1"), gym_job_id="strange"), **changes)
    local = dataclasses.replace(record(tmp_path, ("one", "local-1")), executor="local")
    with SubmissionMachines() as sites:
        found = gather([strange, local], sites)
    assert list(found) == [("strange", "one"), (ID, "one")]
    assert next(iter(changes.values())) in found["strange", "one"].silent
    assert not found[ID, "one"].silent
