"""What may be deleted, and that nothing else is: a live run, one without a copy here, a stranger's folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.evidence_files import collected, link

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.errors import GymError, RefusedError
from nemo_gym.job_paths import RunPaths, fetched_note, index_entry
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import fetch, index
from nemo_gym.orchestration.removal.candidates import RemovalCandidate, candidates, doomed_name, older
from nemo_gym.orchestration.removal.delete import delete
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_runs.clock import MovableClock
from nemo_slurm.errors import NotReachableError
from nemo_slurm.hosts import Completed, Host, LocalHost


class Far(LocalHost):
    """This machine under another name."""

    name = "far"


class Away(Far):
    """A machine that gives no answer."""

    def run(self, script: str, *, timeout: float = 60.0) -> Completed:
        raise NotReachableError("far does not answer")


class World:
    """Submissions of one machine, its queue, and what is decided about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executor = FakeJobExecutor(FakeQueue())
        self.machine = SubmissionMachine(self.executor)
        self.clock = MovableClock()
        self.host: Host = LocalHost()

    def groups(
        self, records: Iterable[SubmissionRecord]
    ) -> Iterable[tuple[SubmissionMachine, list[SubmissionRecord]]]:
        return [(self.machine, list(records))]

    def hosts(self, name: str | None) -> Host:
        return self.host

    def add(self, number: int = 1, state: str = "SUCCEEDED", hostname: str | None = None) -> SubmissionRecord:
        run_dir = self.folder / "there" / f"gym-job-20260101T000000Z-00000{number}"
        job_dir = run_dir / "sums"
        ended = {"end": "done 0\n", "collected": collected()} if state == "SUCCEEDED" else {}
        for name, text in link(f"{number}.0", **ended).items():
            (job_dir / name).parent.mkdir(parents=True, exist_ok=True)
            (job_dir / name).write_text(text)
        (job_dir / "artifacts").mkdir()
        (job_dir / "artifacts" / "rollouts.jsonl").write_text("row\n" * 10)
        (job_dir / "job.sh").write_text("echo\n")
        self.executor.cluster.jobs[str(number)] = JobObservation(JobState(state), "")
        record = SubmissionRecord(
            gym_job_id=run_dir.name, gym_version="", gym_commit=None, submitted_at="2026-01-01T00:00:00Z",
            run_dir=str(run_dir), cluster="c", executor="fake", submitted_by="ada", hostname=hostname,
            benchmarks=(BenchmarkEntry(benchmark="sums", job_dir=str(job_dir), job_id=str(number)),),
        )  # fmt: skip
        RunPaths(run_dir).record.write_bytes(record.dumps())
        index_entry(record.gym_job_id).parent.mkdir(parents=True, exist_ok=True)
        index_entry(record.gym_job_id).write_bytes(record.dumps())
        return record

    def look(self, *records: SubmissionRecord) -> list[RemovalCandidate]:
        return candidates(records, self, self.hosts, clock=self.clock)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_run_that_has_ended_goes_whole_and_is_forgotten(world: World) -> None:
    record = world.add()
    other = world.add(2)
    (found,) = world.look(record)
    assert (found.refusal, found.gone) == ("", False)
    assert found.files == 6
    assert found.size == sum(p.stat().st_size for p in Path(record.run_dir).rglob("*") if p.is_file())
    delete(found, world.hosts)
    assert not Path(record.run_dir).exists()
    assert not index_entry(record.gym_job_id).exists()
    assert Path(other.run_dir, "sums", "job.sh").exists()
    assert [path.name for path in Path(other.run_dir).parent.iterdir()] == [other.gym_job_id]
    json.dumps(found.to_json())


@pytest.mark.parametrize("state", ["RUNNING", "QUEUED"])
def test_a_live_run_stays(world: World, state: str) -> None:
    record = world.add(state=state)
    (found,) = world.look(record)
    assert found.refusal.startswith("sums is at work, or may be: `gym job cancel")
    with pytest.raises(RefusedError):
        delete(found, world.hosts)
    assert Path(record.run_dir, "sums", "job.sh").exists()
    assert index_entry(record.gym_job_id).exists()


def test_a_run_whose_scheduler_says_nothing_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    record = world.add(state="RUNNING")

    def silent(_jobs: object) -> None:
        raise GymError("the scheduler does not answer")

    monkeypatch.setattr(world.executor, "observe", silent)
    assert "may be" in world.look(record)[0].refusal


def test_a_run_on_a_machine_that_does_not_answer_stays(world: World) -> None:
    record = world.add(hostname="far")
    world.host = Away()
    assert world.look(record)[0].refusal == "far does not answer"


@pytest.fixture
def far(world: World, tmp_path: Path) -> SubmissionRecord:
    """A run on another machine: its folder is not where the record says, seen from here."""
    record = world.add(hostname="far")
    hidden = tmp_path / "hidden"
    Path(record.run_dir).parent.rename(hidden)
    (hidden / record.gym_job_id).rename(hidden / "run")
    moved = str(hidden / "run")

    class Hidden(Far):
        def run(self, script: str, *, timeout: float = 60.0) -> Completed:
            there = script.replace(doomed_name(record), str(hidden / ".removing")).replace(
                record.run_dir, moved
            )
            return super().run(there, timeout=timeout)

        def copy_out(self, folder: str, *rest: object, **more: object) -> object:
            return super().copy_out(folder.replace(record.run_dir, moved), *rest, **more)  # type: ignore[arg-type]

    world.host = Hidden()
    return record


def test_a_run_on_another_machine_goes_only_once_its_copy_here_is_whole(
    world: World, far: SubmissionRecord, tmp_path: Path
) -> None:
    assert world.look(far)[0].refusal.startswith("it was never fetched: `gym job fetch")
    copy = tmp_path / "copy"
    fetch.fetch(far, world.host, copy, logs=False)
    index.note_fetched(far.gym_job_id, copy, report=pytest.fail)
    index.note_fetched(far.gym_job_id, copy, report=pytest.fail)
    assert index.fetched_copies(far.gym_job_id) == [copy]
    rows = tmp_path / "hidden" / "run" / "sums" / "artifacts" / "rollouts.jsonl"
    rows.write_text("row\n" * 11)
    assert world.look(far)[0].refusal.startswith("sums/artifacts/rollouts.jsonl is not in the fetched copy")
    fetch.fetch(far, world.host, copy, logs=False)
    (found,) = world.look(far)
    assert found.refusal == ""
    delete(found, world.hosts)
    assert not rows.exists()
    assert (copy / "sums" / "artifacts" / "rollouts.jsonl").read_text() == "row\n" * 11
    assert not fetched_note(far.gym_job_id).exists()


def test_a_copy_that_was_changed_does_not_count(world: World, far: SubmissionRecord, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    fetch.fetch(far, world.host, copy, logs=False)
    index.note_fetched(far.gym_job_id, copy, report=pytest.fail)
    (copy / "sums" / "artifacts" / "rollouts.jsonl").write_text("")
    assert "rollouts.jsonl is not in the fetched copy" in world.look(far)[0].refusal


def test_a_removal_that_broke_off_is_taken_up_again(world: World) -> None:
    record = world.add()
    Path(record.run_dir).rename(doomed_name(record))
    Path(doomed_name(record), RunPaths(Path()).record.name).unlink()
    (found,) = world.look(record)
    assert (found.gone, found.files, found.refusal) == (False, 5, "")
    delete(found, world.hosts)
    assert not Path(doomed_name(record)).exists()
    assert not index_entry(record.gym_job_id).exists()


@pytest.mark.parametrize("broke_off", [False, True])
def test_a_run_that_was_moved_behind_a_link_goes_with_the_link(
    world: World, tmp_path: Path, broke_off: bool
) -> None:
    record = world.add()
    run_dir, big = Path(record.run_dir), tmp_path / "big"
    run_dir.rename(big)
    (tmp_path / "mine").write_text("kept")
    (big / "artifacts").mkdir()
    (big / "artifacts" / "data").symlink_to(tmp_path / "mine")
    (Path(doomed_name(record)) if broke_off else run_dir).symlink_to(big)
    [found] = world.look(record)
    assert found.size > 40
    delete(found, world.hosts)
    assert [path.name for path in run_dir.parent.iterdir()] == []
    assert (big.exists(), (tmp_path / "mine").read_text()) == (False, "kept")
    assert not index_entry(record.gym_job_id).exists()


def test_a_run_whose_folder_is_gone_is_only_forgotten(world: World, tmp_path: Path) -> None:
    record = replace(world.add(), run_dir=str(tmp_path / "nowhere" / "gym-job-1"), benchmarks=())
    (found,) = world.look(record)
    assert (found.gone, found.files, found.size, found.refusal) == (True, 0, 0, "")
    delete(found, world.hosts)
    assert not index_entry(record.gym_job_id).exists()


def test_a_folder_that_holds_another_run_is_left_alone(world: World) -> None:
    record, other = world.add(), world.add(2)
    wrong = replace(record, run_dir=other.run_dir)
    (found,) = world.look(wrong)
    with pytest.raises(RefusedError, match="has no record of"):
        delete(found, world.hosts)
    assert Path(other.run_dir, "sums", "job.sh").exists()


def test_a_linked_folder_keeps_what_the_link_leads_to(world: World, tmp_path: Path) -> None:
    record = world.add()
    elsewhere = tmp_path / "big-disk"
    Path(record.run_dir, "sums", "artifacts").rename(elsewhere)
    Path(record.run_dir, "sums", "artifacts").symlink_to(elsewhere)
    delete(world.look(record)[0], world.hosts)
    assert (elsewhere / "rollouts.jsonl").exists()


def test_age_counts_from_when_a_run_was_last_heard_of(world: World) -> None:
    (found,) = world.look(world.add())
    now = world.clock.seconds()
    assert found.ended_at == now - 600
    assert older([found], now=now, seconds=599) == [found]
    assert older([found], now=now, seconds=601) == []
