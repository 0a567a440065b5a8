"""Run directories that are known again, and those that cannot be."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nemo_gym import job_paths
from nemo_gym.errors import DataError, GymError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import adopt, index
from nemo_gym.orchestration.records.adopt import AdoptedRun, What

ID = "gym-job-20261129T000001Z-00000a"
CONFIG = """
compute:
  big: {type: slurm, account: x, hostname: login.example}
driver:
  benchmarks:
    sums: {run: {limit: 3}}
    more: {run: {}}
    last: {run: {}}
job: {output_path: /runs}
"""
NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


def record(run_dir: Path) -> SubmissionRecord:
    entry = BenchmarkEntry(benchmark="sums", job_dir=str(run_dir / "sums"), job_id="7")
    return SubmissionRecord(
        gym_job_id=run_dir.name,
        gym_version="0.1.0",
        gym_commit=None,
        submitted_at="2026-11-29T00:00:01Z",
        run_dir=str(run_dir),
        cluster="here",
        executor="local",
        submitted_by="ada",
        benchmarks=(entry,),
        labels={"team": "a"},
    )


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run directory with everything but a record."""
    paths = RunPaths(tmp_path / "runs" / ID)
    for name in ("sums", "more", "last"):
        paths.job(name).job_dir.mkdir(parents=True)
    paths.resolved_config.write_text(CONFIG)
    event = {"at": "2026-11-29T00:00:02.000Z", "event": "submitted", "job_id": "7"}
    paths.job("sums").events.write_text(json.dumps(event) + "\n")
    (paths.job("more").job_dir / ".gym_job_chain").write_text("8\n9\n")
    return paths.run_dir


def test_a_lost_record_of_a_campaign_is_made_again_with_its_models(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "runs" / ID)
    for name in ("small", "small.sums"):
        paths.job(name).job_dir.mkdir(parents=True)
    config = CONFIG.replace(
        "driver:", "services: {small: {type: vllm, model: m}}\ndriver:\n  models: {small: {}}"
    )
    paths.resolved_config.write_text(config)
    paths.job("small").chain.write_text("8\n")
    found = adopt.made_again(paths.run_dir, now=NOW)
    assert next((e.benchmark, e.model, e.job_id) for e in found.benchmarks) == ("small.sums", "small", "8")
    assert [entry.task for entry in found.benchmarks] == ["sums", "more", "last"]


def take(run_dir: Path) -> What:
    done = adopt.adopt(run_dir, now=NOW, report=print)
    assert done == AdoptedRun(run_dir, run_dir.name, done.what)
    return done.what


def indexed() -> list[SubmissionRecord]:
    return list(index.indexed(report=pytest.fail))


def test_a_record_in_a_run_directory_is_indexed_and_left_as_it_is(run_dir: Path):
    known = record(run_dir)
    RunPaths(run_dir).record.write_bytes(known.dumps())
    assert (take(run_dir), take(run_dir)) == ("indexed", "known")
    assert indexed() == [known]
    assert RunPaths(run_dir).record.read_bytes() == known.dumps()


def test_a_lost_record_is_made_from_config_and_journals(run_dir: Path):
    assert take(run_dir) == "made"
    made = index.read_record(RunPaths(run_dir).record)
    assert indexed() == [made]
    assert [(entry.benchmark, entry.job_id) for entry in made.benchmarks] == [
        ("sums", "7"),
        ("more", "8"),
        ("last", None),
    ]
    assert (made.executor, made.cluster, made.hostname) == ("slurm", "big", "login.example")
    assert (made.submitted_at, made.run_dir) == ("2026-11-29T00:00:01Z", str(run_dir))
    assert made.executor_metadata == {"adopted_at": "2027-01-15T08:00:00Z"}
    assert made.config_digest
    assert take(run_dir) == "known"


def test_a_moved_run_directory_is_found_where_it_is_now(run_dir: Path, tmp_path: Path):
    RunPaths(run_dir).record.write_bytes(record(run_dir).dumps())
    take(run_dir)
    moved = tmp_path / "elsewhere" / ID
    moved.parent.mkdir()
    run_dir.rename(moved)
    assert take(moved) == "moved"
    (found,) = indexed()
    assert (found.run_dir, found.benchmarks[0].job_dir) == (str(moved), str(moved / "sums"))
    assert found.labels == {"team": "a"}


def test_a_copy_of_what_is_known_is_not_adopted(run_dir: Path, tmp_path: Path):
    known = record(run_dir)
    RunPaths(run_dir).record.write_bytes(known.dumps())
    take(run_dir)
    copy = RunPaths(tmp_path / ID)
    copy.run_dir.mkdir()
    copy.record.write_bytes(known.dumps())
    with pytest.raises(GymError, match="which still exists"):
        take(copy.run_dir)
    away = replace(known, hostname="login.example", run_dir="/far/away")
    (job_paths.job_index() / f"{ID}.json").write_bytes(away.dumps())
    with pytest.raises(GymError, match=r"on login\.example; a copy"):
        take(run_dir)
    copy.fetched.write_text("{}")
    with pytest.raises(GymError, match="fetched copy"):
        take(copy.run_dir)
    assert indexed() == [away]


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not a JSON document"), ('{"schema_version": 99}', "newer Gym"), ("[]", "not a job record")],
)
def test_a_damaged_or_newer_record_is_told_and_left_alone(run_dir: Path, text: str, said: str):
    RunPaths(run_dir).record.write_text(text)
    with pytest.raises(DataError, match=said):
        take(run_dir)
    assert RunPaths(run_dir).record.read_text() == text
    assert indexed() == []


@pytest.mark.parametrize("config", ["", "compute: {}\n", "compute: {a: {type: local}}\n", "{"])
def test_without_a_config_no_record_can_be_made(run_dir: Path, config: str):
    RunPaths(run_dir).resolved_config.write_text(config)
    with pytest.raises(DataError, match="cannot be made again"):
        take(run_dir)
    assert not RunPaths(run_dir).record.exists()


def test_a_folder_of_which_nothing_was_ever_queued_is_told_from_one_whose_record_is_lost(run_dir: Path):
    RunPaths(run_dir).resolved_config.unlink()
    with pytest.raises(DataError, match="cannot be made again"):
        take(run_dir)
    RunPaths(run_dir).job("sums").events.unlink()
    (RunPaths(run_dir).job("more").job_dir / ".gym_job_chain").unlink()
    with pytest.raises(DataError, match="ended before it had queued one; it can be removed"):
        take(run_dir)


def test_a_folder_that_is_no_run_directory_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="is not an id"):
        take(tmp_path)
    with pytest.raises(GymError, match="there is no folder"):
        take(tmp_path / "gone")


def test_a_directory_of_somebody_else_is_indexed_although_its_record_cannot_be_written(
    run_dir: Path, monkeypatch
):
    def refused(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(adopt, "create_file", refused)
    said: list[str] = []
    adopt.adopt(run_dir, now=NOW, report=said.append)
    assert "in the local index alone" in said[0]
    assert len(indexed()) == 1


def test_run_directories_are_told_from_other_folders(run_dir: Path):
    (run_dir.parent / "notes").mkdir()
    (run_dir.parent / "gym-job-file").write_text("")
    named = run_dir.parent / "renamed"
    named.mkdir()
    (named / "gym-job.json").write_text("{")
    assert list(adopt.run_dirs(run_dir.parent)) == [run_dir, named]
    with pytest.raises(GymError, match="is not a folder"):
        list(adopt.run_dirs(run_dir.parent / "gone"))
