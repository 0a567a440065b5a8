"""`gym job list`: one line for each submission."""

from pathlib import Path

from tests.nemo_gym.orchestration.results.test_scores import entry, record

from nemo_gym.cli.job.list import _row
from nemo_gym.job_paths import JobPaths


def test_the_list_shows_id_time_cluster_executor_benchmarks_and_labels(tmp_path: Path):
    row = _row(record(tmp_path, entry(tmp_path), entry(tmp_path, None)))
    assert row == [
        "gym-job-20261129T000000Z-00000a",
        "2026-11-29T00:00:00Z",
        "here",
        "local",
        "sums,sums(not queued)",
        "team=a,n=1",
    ]


def test_a_benchmark_that_was_queued_by_a_later_resubmit_is_listed_as_queued(tmp_path):
    known = record(tmp_path, entry(tmp_path / "a", job_id=None))
    assert _row(known)[4] == "sums(not queued)"
    for number, name in ((1, "queue_error"), (2, "queued")):
        folder = JobPaths(tmp_path / "a").resubmission(number).folder
        folder.mkdir(parents=True)
        (folder / name).write_text("12\n")
    assert _row(known)[4] == "sums"
