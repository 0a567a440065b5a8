"""What is brought of a run on another machine: for a bill, of each row its times and nothing else."""

import json
import os
from pathlib import Path

import pytest

from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records.remote_copy import RemoteCopy, for_bill
from nemo_slurm.hosts import LocalHost


class Far(LocalHost):
    """This machine under another name."""

    name = "far"


@pytest.fixture
def record(tmp_path: Path) -> SubmissionRecord:
    run_dir = tmp_path / "it's there" / "gym-job-20261129T000001Z-00000a"
    (run_dir / "sums" / "artifacts").mkdir(parents=True)
    entry = BenchmarkEntry(benchmark="sums", job_dir=str(run_dir / "sums"), job_id="7")
    record = SubmissionRecord(
        gym_job_id=run_dir.name,
        gym_version="0.1.0",
        gym_commit=None,
        submitted_at="2026-11-29T00:00:01Z",
        run_dir=str(run_dir),
        cluster="big",
        executor="slurm",
        submitted_by="ada",
        benchmarks=(entry,),
        hostname="far",
    )
    (run_dir / "gym-job.json").write_bytes(record.dumps())
    return record


def test_the_times_of_rows_come_without_their_text_and_with_the_age_of_their_file(record: SubmissionRecord):
    rows = Path(record.run_dir) / "sums" / "artifacts" / "rollouts.jsonl"
    rows.parent.joinpath("rollouts_materialized_inputs.jsonl").write_text("{}\n")
    times = '"ng_perf":{"total_latency_ms":1.5,"ended_at":1800000000.25'
    odd = json.dumps({"ng_perf": {"total_latency_ms": 2, "ended_at": 3}, "text": "x" * 500})
    written = ['{"text":"' + "secret ☃ " * 9000 + '",' + times + "}}", odd, '{"text":"older"}', "{" + times]
    rows.write_text("\n".join(written))
    os.utime(rows, ns=(5_250_000_000, 5_250_000_000))
    said: list[str] = []
    with RemoteCopy(for_bill, report=said.append, hosts=lambda _name: Far(), why="times") as near:
        place = near.brought(record)
        here = place.job("sums").rollouts.output
        assert here.read_text().splitlines() == ["{" + times + "}}", odd, "{}"]
        assert here.stat().st_mtime_ns == 5_250_000_000
        assert [path.name for path in here.parent.iterdir()] == ["rollouts.jsonl"]
    assert not place.run_dir.parent.exists()
    assert f"far:{record.run_dir}" in said[0]


def test_a_run_without_rows_and_one_whose_folder_is_here_need_nothing(record: SubmissionRecord):
    with RemoteCopy(for_bill, report=print, hosts=lambda _name: Far(), why="times") as near:
        assert not near.brought(record).job("sums").rollouts.output.exists()
        assert near.of(record).run_dir == Path(record.run_dir)
