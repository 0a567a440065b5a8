"""Three locations, their order, and every way in which writing them can fail."""

import json
import os
import stat
from pathlib import Path

import pytest

from nemo_gym.errors import DataError, GymError, SubmitError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import index, locations


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nemo-gym" / "jobs"


@pytest.fixture
def said() -> list[str]:
    return []


def record(folder: Path, number: int = 1, **changes: object) -> SubmissionRecord:
    gym_job_id = f"gym-job-20261129T0000{number:02}Z-00000{number % 10}"
    run_dir = folder / gym_job_id
    run_dir.mkdir(parents=True, exist_ok=True)
    values = {
        "gym_job_id": gym_job_id,
        "gym_version": "0.1.0",
        "gym_commit": None,
        "submitted_at": f"2026-11-29T00:00:{number:02}Z",
        "run_dir": str(run_dir),
        "cluster": "here",
        "executor": "fake",
        "submitted_by": "ada",
        "benchmarks": (
            BenchmarkEntry(benchmark="a", job_dir=str(run_dir / "a"), job_id="fake-1"),
            BenchmarkEntry(benchmark="b", job_dir=str(run_dir / "b"), error="refused"),
            BenchmarkEntry(benchmark="c", job_dir=str(run_dir / "c"), job_id="fake-2"),
        ),
        **changes,
    }
    return SubmissionRecord(**values)  # type: ignore[arg-type]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_three_locations_are_written_and_both_copies_hold_the_same_bytes(
    cache: Path, tmp_path: Path, said: list[str]
):
    mine = record(tmp_path)
    index.write_records(mine, "compute: {}\n", report=said.append)
    run_dir = Path(mine.run_dir)
    assert (run_dir / "gym-job.json").read_bytes() == mine.dumps()
    assert (cache / f"{mine.gym_job_id}.json").read_bytes() == mine.dumps()
    assert (run_dir / "resolved-config.yaml").read_text() == "compute: {}\n"
    assert said == []


def test_record_and_resolved_config_can_be_read_by_another_account(cache: Path, tmp_path: Path):
    before = os.umask(0o077)
    try:
        mine = record(tmp_path)
        index.write_records(mine, "", report=print)
    finally:
        os.umask(before)
    assert mode(Path(mine.run_dir) / "gym-job.json") == 0o644
    assert mode(Path(mine.run_dir) / "resolved-config.yaml") == 0o644


def test_the_index_is_in_the_home_cache_when_no_cache_home_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    mine = record(tmp_path)
    index.write_records(mine, "", report=print)
    assert (tmp_path / "home/.cache/nemo-gym/jobs" / f"{mine.gym_job_id}.json").is_file()


def test_an_index_that_cannot_be_written_is_told_and_does_not_fail_the_submit(
    cache: Path, tmp_path: Path, said: list[str]
):
    cache.parent.parent.write_text("a file where a folder should be")
    mine = record(tmp_path)
    index.write_records(mine, "", report=said.append)
    assert (Path(mine.run_dir) / "gym-job.json").is_file()
    assert len(said) == 1
    assert "could not be written" in said[0]
    assert "the submission is not affected" in said[0]


@pytest.mark.parametrize("blocked", ["resolved-config.yaml", "gym-job.json"])
def test_a_failed_write_into_the_run_directory_names_every_queued_job(
    cache: Path, tmp_path: Path, blocked: str
):
    mine = record(tmp_path)
    (Path(mine.run_dir) / blocked).mkdir()
    with pytest.raises(SubmitError) as caught:
        index.write_records(mine, "", report=print)
    text = str(caught.value)
    assert f"{mine.run_dir}/{blocked}" in text
    assert "these jobs are queued, note them down: a=fake-1, c=fake-2." in text
    assert "b=" not in text
    other = {"resolved-config.yaml", "gym-job.json"} - {blocked}
    assert (Path(mine.run_dir) / other.pop()).is_file()


def test_the_index_was_written_before_the_run_directory_failed(cache: Path, tmp_path: Path):
    mine = record(tmp_path)
    Path(mine.run_dir).rmdir()
    with pytest.raises(SubmitError, match="a=fake-1, c=fake-2"):
        index.write_records(mine, "", report=print)
    assert index.find(mine.gym_job_id, report=print) == mine


def test_a_record_that_is_there_is_never_overwritten(cache: Path, tmp_path: Path, said: list[str]):
    mine = record(tmp_path)
    index.write_records(mine, "", report=said.append)
    with pytest.raises(SubmitError):
        index.write_records(record(tmp_path, cluster="other"), "changed", report=said.append)
    assert index.find(mine.gym_job_id, report=print).cluster == "here"
    assert (Path(mine.run_dir) / "resolved-config.yaml").read_text() == ""
    assert len(said) == 1


def test_the_index_is_listed_newest_first_with_limit_and_labels(cache: Path, tmp_path: Path):
    for number in range(1, 6):
        labels = {"odd": str(number % 2)}
        index.write_records(record(tmp_path, number, labels=labels), "", report=print)
    ids = [found.submitted_at[-3:-1] for found in index.newest(limit=2, labels={}, report=print)]
    assert ids == ["05", "04"]
    odd = index.newest(limit=None, labels={"odd": "1"}, report=print)
    assert [found.submitted_at[-3:-1] for found in odd] == ["05", "03", "01"]
    assert index.newest(limit=None, labels={"odd": "1", "x": "y"}, report=print) == []


def test_records_that_cannot_be_read_are_told_and_passed_over(cache: Path, tmp_path: Path, said: list[str]):
    index.write_records(record(tmp_path, 1), "", report=print)
    (cache / "gym-job-torn.json").write_text('{"schema_')
    (cache / "gym-job-newer.json").write_text(json.dumps({"schema_version": 99}))
    (cache / ".half.json").write_text("")
    (cache / "gym-job-deep.json").write_text("[" * 99_999)
    assert len(index.newest(limit=None, labels={}, report=said.append)) == 1
    assert len(said) == 3
    assert "newer Gym" in "".join(said)


def test_an_index_that_does_not_exist_is_an_empty_list(cache: Path, said: list[str]):
    assert index.newest(limit=None, labels={}, report=said.append) == []
    assert said == []


def test_a_submission_is_found_by_id_unique_prefix_latest_or_run_directory(cache: Path, tmp_path: Path):
    mine = [record(tmp_path, number) for number in (1, 2)]
    for each in mine:
        index.write_records(each, "", report=print)
    names = [mine[1].gym_job_id, "gym-job-20261129T000002", "20261129T000002", "latest", mine[1].run_dir]
    assert [index.find(name, report=print) for name in names] == [mine[1]] * 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gym-job-2026", "begins the ids of 2 submissions"),
        ("nope", "no submission 'nope' in .*; `gym job list` shows"),
        ("lates", r"^no submission 'lates' \(did you mean 'latest'\?\)\.$"),
    ],
)
def test_an_ambiguous_or_unknown_name_says_so(cache: Path, tmp_path: Path, name: str, message: str):
    for number in (1, 2):
        index.write_records(record(tmp_path, number), "", report=print)
    with pytest.raises(GymError, match=message):
        index.find(name, report=print)


def test_a_path_that_is_not_there_is_answered_with_one_beside_it(cache: Path, tmp_path: Path):
    (tmp_path / "right.sums").mkdir()
    with pytest.raises(GymError, match=rf"did you mean '{tmp_path}/right\.sums'"):
        index.find(f"{tmp_path}/right.sum", report=print)


def test_latest_of_nothing_is_an_error(cache: Path):
    with pytest.raises(GymError, match="there is no submission"):
        index.find("latest", report=print)


def test_a_damaged_record_file_is_named(tmp_path: Path):
    path = tmp_path / "gym-job.json"
    path.write_text("[")
    with pytest.raises(DataError, match=f"{path} is not a JSON document"):
        index.read_record(path)


def test_a_full_id_is_the_submission_and_not_a_folder_of_that_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = record(tmp_path / "runs", 1, hostname="cluster", run_dir="/scratch/runs/a")
    index.write_records(made, "", report=print, write=lambda *_: None)
    copy = tmp_path / "here" / made.gym_job_id
    copy.mkdir(parents=True)
    (copy / "gym-job.json").write_bytes(made.dumps())
    monkeypatch.chdir(copy.parent)
    assert index.find(made.gym_job_id, report=print).run_dir == "/scratch/runs/a"
    assert locations.find_location(made.gym_job_id, report=print).run_dir == copy
    assert locations.readable(made.gym_job_id, report=print).run_dir == str(copy)


@pytest.mark.parametrize("fetched", [True, False])
def test_a_copy_is_read_where_it_is_and_leads_to_its_original_otherwise(
    cache: Path, tmp_path: Path, fetched: bool
):
    made = record(tmp_path / "runs", 1, hostname="cluster" if fetched else None)
    index.write_records(made, "", report=print)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "gym-job.json").write_bytes(made.dumps())
    if fetched:
        RunPaths(copy).fetched.write_text("{}")
    assert index.find(str(copy), report=print) == made
    assert locations.find_location(str(copy), report=print).run_dir == copy
    assert locations.readable(str(copy), report=print).run_dir == str(copy)


def test_a_run_directory_that_was_moved_is_read_where_it_is(cache: Path, tmp_path: Path):
    made = record(tmp_path, 1)
    index.write_records(made, "", report=print)
    moved = Path(made.run_dir).rename(tmp_path / "moved")
    found = index.find(str(moved), report=print)
    assert found.run_dir == str(moved)
    assert [Path(entry.job_dir) for entry in found.benchmarks] == [
        moved / entry.benchmark for entry in made.benchmarks
    ]
