"""Which runs there are, in the record index and in folders."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.result_rows import result, write_output

from nemo_gym.job_paths import RunPaths, fetched_note, index_entry
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.pages.index.run_places import PlacedRun, RunPlaces, run_id_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def record(folder: Path, number: int = 1, **changes: object) -> SubmissionRecord:
    gym_job_id = f"gym-job-20270115T08000{number}Z-00000a"
    run_dir = folder / gym_job_id
    made = SubmissionRecord(
        gym_job_id=gym_job_id,
        gym_version="1",
        gym_commit=None,
        submitted_at=f"2027-01-15T08:00:0{number}Z",
        run_dir=str(run_dir),
        cluster="here",
        executor="local",
        submitted_by="ann",
        benchmarks=(BenchmarkEntry(benchmark="sums", job_dir=str(run_dir / "sums"), job_id="local-1"),),
    )
    return replace(made, **changes)


def submit(made: SubmissionRecord, *, indexed: bool = True, there: bool = True) -> Path:
    run_dir = Path(made.run_dir)
    if indexed:
        index_entry(made.gym_job_id).parent.mkdir(parents=True, exist_ok=True)
        index_entry(made.gym_job_id).write_bytes(made.dumps())
    if there:
        write_output(run_dir / "sums" / "artifacts", {(0, 0): result()}, tasks=1, repeats=1)
        RunPaths(run_dir).record.write_bytes(made.dumps())
    return run_dir


def find(*folders: Path, records: bool = True) -> tuple[list[PlacedRun], list[str]]:
    said: list[str] = []
    return RunPlaces(folders, records=records).find(report=said.append), said


def test_records_of_the_index_are_found_newest_first(tmp_path: Path) -> None:
    for number in (1, 2):
        submit(record(tmp_path, number))
    places, said = find()
    assert [place.record.submitted_at[-3:] for place in places] == ["02Z", "01Z"]
    assert [list(place.outputs) for place in places] == [["sums"], ["sums"]]
    assert said == []


def test_a_new_record_is_found_and_a_removed_one_is_not(tmp_path: Path) -> None:
    places = RunPlaces([], records=True)
    assert places.find(report=pytest.fail) == []
    submit(record(tmp_path))
    assert len(places.find(report=pytest.fail)) == 1
    index_entry(record(tmp_path).gym_job_id).unlink()
    assert places.find(report=pytest.fail) == []


def test_a_run_on_another_machine_has_no_folder_until_it_is_fetched(tmp_path: Path) -> None:
    made = record(tmp_path, hostname="cluster")
    submit(made, there=False)
    [place], _ = find()
    assert (place.folder, place.outputs) == (None, {})
    copy = tmp_path / "fetched" / "mine"
    write_output(copy / "sums" / "artifacts", {(0, 0): result()}, tasks=1, repeats=1)
    RunPaths(copy).record.write_bytes(made.dumps())
    RunPaths(copy).fetched.write_text("{}")
    fetched_note(made.gym_job_id).write_text(f"{copy}\n")
    [place], _ = find()
    assert (place.folder, place.copy, list(place.outputs)) == (copy, True, ["sums"])
    assert place.record.benchmarks[0].job_dir == str(copy / "sums")


def test_folders_hold_run_directories_and_results_at_any_of_three_levels(tmp_path: Path) -> None:
    run_dir = submit(record(tmp_path / "runs"), indexed=False)
    plain = write_output(tmp_path / "runs" / "by hand" / "first", {(0, 0): result()}, tasks=1, repeats=1)
    places, said = find(tmp_path / "runs", records=False)
    assert {place.folder for place in places} == {run_dir, plain.output.parent}
    assert said == []
    assert find(run_dir, records=False)[0][0].run_id == run_dir.name
    assert find(plain.output, records=False)[0][0].outputs["rollouts"].output == plain.output


def test_a_run_that_is_named_and_indexed_is_there_once(tmp_path: Path) -> None:
    run_dir = submit(record(tmp_path))
    assert len(find(run_dir)[0]) == 1


def test_ids_of_folders_are_safe_in_addresses_and_differ(tmp_path: Path) -> None:
    ids = {run_id_of(tmp_path / name) for name in ("a b/<x>", "ä", "..", "x" * 300, "other/<x>")}
    assert len(ids) == 5
    assert all(name.isascii() and "/" not in name and " " not in name and len(name) < 80 for name in ids)
    assert run_id_of(tmp_path / "a" / "rollouts.jsonl").startswith("rollouts-")


def test_a_damaged_record_and_a_folder_that_is_not_there_are_said(tmp_path: Path) -> None:
    run_dir = submit(record(tmp_path), indexed=False)
    RunPaths(run_dir).record.write_text(json.dumps({"schema_version": 99}))
    places, said = find(run_dir, tmp_path / "nowhere", records=False)
    assert [(place.record, list(place.outputs)) for place in places] == [(None, ["sums"])]
    assert len(said) == 2
