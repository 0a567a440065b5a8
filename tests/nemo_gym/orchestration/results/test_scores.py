"""What came out of submissions, read from their folders alone."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.results import scores
from nemo_gym.orchestration.results.scores import BenchmarkResult
from nemo_gym.rollouts.output.manifest import OutputManifest
from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric
from nemo_gym.rollouts.scores.statistics import Interval
from nemo_gym.rollouts.scores.summary import Coverage, Summary


def record(folder: Path, *entries: BenchmarkEntry) -> SubmissionRecord:
    return SubmissionRecord(
        gym_job_id="gym-job-20261129T000000Z-00000a",
        gym_version="0.1.0",
        gym_commit=None,
        submitted_at="2026-11-29T00:00:00Z",
        run_dir=str(folder),
        cluster="here",
        executor="local",
        submitted_by="ada",
        benchmarks=entries,
        labels={"team": "a", "n": "1"},
    )


def entry(folder: Path, job_id: str | None = "local-1") -> BenchmarkEntry:
    error = None if job_id is not None else "refused"
    return BenchmarkEntry(benchmark="sums", job_dir=str(folder), job_id=job_id, error=error)


def coverage(**changes: int) -> Coverage:
    counts = {
        "expected": 10, "measured": 10, "masked": 0, "unscored": 0, "failed": 0, "missing": 0, "truncated": 1,
        "no_answer": 2, "no_answer_truncated": 1, "tasks": 5, "measured_tasks": 5, "attempts": 10,
    }  # fmt: skip
    return Coverage(**{**counts, **changes})


def interval(mean: float, low: float, high: float) -> Interval:
    return Interval(mean=mean, low=low, high=high, std_error=0.1, clusters=5, method="clustered_t")


def write(folder: Path, *, summary: Summary | None = None, progress: dict[str, Any] | None = None) -> None:
    paths = JobPaths(folder)
    paths.artifacts.mkdir(parents=True)
    manifest = OutputManifest(
        run_id="r",
        created_at="2026-11-29T00:00:00Z",
        gym_version="0.1.0",
        gym_commit=None,
        generation={"policy_model_name": "asked"},
        scoring={},
        model={"name": "answered"},
        num_tasks=5,
        num_repeats=2,
        materialized={"sha256": "", "size": 0, "rows": 10, "mtime_ns": 0},
    )
    manifest.save(paths.rollouts.manifest)
    if summary is not None:
        paths.rollouts.coverage.write_text(json.dumps(summary.to_json()))
    if progress is not None:
        paths.rollouts.progress.write_text(json.dumps(progress))


def summary(found: Coverage) -> Summary:
    metrics = {"mean/reward": 0.4}
    return Summary(found, interval(0.4, 0.25, 0.55), metrics, tokens={}, latency_ms={}, run={"model": "run"})


def only(folder: Path, said: list[str] | None = None) -> BenchmarkResult:
    report = (said if said is not None else []).append
    (row,) = scores.results(record(folder, entry(folder)), report=report)
    return row


def test_a_complete_benchmark_has_score_interval_coverage_and_model(tmp_path: Path):
    write(tmp_path / "sums", summary=summary(coverage()))
    row = only(tmp_path / "sums")
    assert (row.status, row.score, row.low, row.high) == ("complete", 0.4, 0.25, 0.55)
    assert (row.expected, row.measured, row.coverage, row.model) == (10, 10, 1.0, "answered")
    assert (row.detail, row.job_id, row.key_metrics) == ("", "local-1", {"mean/reward": 0.4})


def test_an_incomplete_benchmark_says_what_is_left_out(tmp_path: Path):
    write(tmp_path / "sums", summary=summary(coverage(measured=7, failed=2, missing=1)))
    row = only(tmp_path / "sums")
    assert (row.status, row.coverage, row.failed, row.missing) == ("incomplete", 0.7, 2, 1)
    assert "2 failed, 1 missing" in row.detail


@pytest.mark.parametrize("state", ["running", "draining"])
def test_a_benchmark_at_work_is_unfinished_even_beside_an_older_summary(tmp_path: Path, state: str):
    progress = {"state": state, "done": 4, "expected": 10}
    write(tmp_path / "sums", summary=summary(coverage(measured=3, missing=7)), progress=progress)
    row = only(tmp_path / "sums")
    assert (row.status, row.score, row.measured, row.coverage) == ("unfinished", None, 4, 0.4)
    assert row.detail == f"4 of 10 rollouts so far; {state}"


def test_a_job_that_was_killed_says_how_it_ended(tmp_path: Path):
    write(tmp_path / "sums", progress={"state": "running", "done": 4, "expected": 10})
    exit_file = JobPaths(tmp_path / "sums").link("local-1").exit
    exit_file.parent.mkdir(parents=True)
    exit_file.write_text(json.dumps({"state": "TIMEOUT", "exit_status": 143, "reason": "walltime"}))
    row = only(tmp_path / "sums")
    assert row.status == "unfinished"
    assert row.detail == "4 of 10 rollouts so far; its job ended: TIMEOUT (exit status 143, walltime)"


def test_what_a_job_said_of_its_own_end_is_told_before_what_its_supervisor_saw(tmp_path: Path):
    link = JobPaths(tmp_path / "sums").link("local-1")
    link.folder.mkdir(parents=True)
    link.exit.write_text(json.dumps({"state": "FAILED", "exit_status": 1, "reason": "exited with status 1"}))
    link.end.write_text("service_died 1 none\nservice 'policy' ended with exit status 127\n")
    row = only(tmp_path / "sums")
    assert row.detail.endswith("FAILED (exit status 1, service 'policy' ended with exit status 127)")


def started(folder: Path, job_id: str, second: int) -> None:
    link = JobPaths(folder).link(job_id)
    link.folder.mkdir(parents=True)
    link.started.write_text(f"{second}\n")


def test_a_chain_is_at_work_while_its_newest_job_is_however_the_first_one_ended(tmp_path: Path):
    write(tmp_path / "sums", progress={"state": "running", "done": 4, "expected": 10})
    started(tmp_path / "sums", "local-1", 100)
    ended = JobPaths(tmp_path / "sums").link("local-1").exit
    ended.write_text(json.dumps({"state": "TIMEOUT", "exit_status": 143, "reason": "walltime"}))
    started(tmp_path / "sums", "local-2", 200)
    assert only(tmp_path / "sums").detail == "4 of 10 rollouts so far; running"


def test_a_benchmark_that_could_not_be_queued_at_first_has_the_results_of_its_resubmission(tmp_path: Path):
    write(tmp_path, summary=summary(coverage()))
    started(tmp_path, "local-7", 100)
    (row,) = scores.results(record(tmp_path, entry(tmp_path, None)), report=print)
    assert (row.status, row.measured) == ("complete", 10)


def test_a_job_that_wrote_nothing_has_no_results(tmp_path: Path):
    (tmp_path / "sums").mkdir()
    assert (only(tmp_path / "sums").status, only(tmp_path / "sums").detail) == (
        "no results",
        "nothing recorded yet",
    )


def test_a_run_directory_that_is_not_on_this_machine_says_so(tmp_path: Path):
    row = only(tmp_path / "elsewhere")
    assert row.status == "no results"
    assert "there is no folder" in row.detail


def test_a_benchmark_that_was_never_queued_says_why(tmp_path: Path):
    (row,) = scores.results(record(tmp_path, entry(tmp_path, None)), report=print)
    assert (row.status, row.detail, row.score) == ("not queued", "refused", None)


def test_damaged_files_are_told_and_do_not_hide_other_benchmarks(tmp_path: Path):
    write(tmp_path / "a", summary=summary(coverage()))
    write(tmp_path / "b", summary=summary(coverage()))
    JobPaths(tmp_path / "a").rollouts.coverage.write_text("{")
    said: list[str] = []
    rows = scores.results(record(tmp_path, entry(tmp_path / "a"), entry(tmp_path / "b")), report=said.append)
    assert [row.status for row in rows] == ["no results", "complete"]
    assert len(said) == 1
    assert "not JSON" in said[0]


def test_the_table_is_one_row_a_benchmark_with_notes_below(tmp_path: Path):
    write(tmp_path / "sums", summary=summary(coverage(measured=7, missing=3)))
    assert scores.results_table([only(tmp_path / "sums")]) == (
        "ID                               BENCHMARK  STATUS      SCORE  95% INTERVAL    COVERAGE  MODEL\n"
        "gym-job-20261129T000000Z-00000a  sums       incomplete  40.0%  25.0% to 55.0%  7/10      answered\n"
        "\n"
        "sums of gym-job-20261129T000000Z-00000a: 7 measured of 10 expected rollouts (5 of 5 tasks); "
        "left out: 3 missing"
    )


def test_csv_and_json_hold_the_same_rows(tmp_path: Path):
    write(tmp_path / "sums", summary=summary(coverage()))
    row = only(tmp_path / "sums")
    (found,) = csv.DictReader(io.StringIO(scores.to_csv([row])))
    values = {key: "" if value is None else str(value) for key, value in row.to_json().items()}
    del values["groups"], values["key_metrics"], values["metrics"], values["until"]
    assert found == values
    assert json.loads(json.dumps(row.to_json()))["score"] == 0.4


def test_results_on_another_machine_are_told_with_the_command_that_copies_them(tmp_path: Path):
    there = replace(record(tmp_path, entry(Path("/scratch/nowhere/sums"))), hostname="cluster")
    (row,) = scores.results(there, report=print)
    assert row.status == "not fetched"
    assert row.detail == f"its files are on cluster; gym job fetch {there.gym_job_id} copies them"


def test_metrics_are_in_the_rows_and_below_the_table(tmp_path: Path):
    metrics = {"length": MeasuredMetric(12.5, "rollouts", 10, 15, 1.0, 9, 1, higher_is_better=False)}
    write(tmp_path / "sums", summary=replace(summary(coverage()), metrics=metrics))
    row = only(tmp_path / "sums")
    assert row.to_json()["metrics"]["length"]["value"] == 12.5
    assert (
        f"{row.benchmark} of {row.gym_job_id}: length 12.5  (95% interval 10 to 15); "
        "1 of 10 have no value; lower is better"
    ) in scores.results_table([row])
