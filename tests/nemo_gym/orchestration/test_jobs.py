"""The job record as the page "Job Records" describes it."""

import json
import subprocess
import sys

import pytest

from nemo_gym.errors import DataError
from nemo_gym.orchestration.jobs import SCHEMA_VERSION, BenchmarkEntry, SubmissionRecord

OLD_PAYLOAD = {
    "gym_job_id": "gym-job-20261012T101112Z-0a1b2c",
    "gym_version": "0.1.0",
    "gym_commit": None,
    "submitted_at": "2026-10-12T10:11:12Z",
    "run_dir": "/lustre/runs/gym-job-20261012T101112Z-0a1b2c",
    "cluster": "big",
    "executor": "slurm",
    "submitted_by": "ada",
    "benchmarks": [
        {"benchmark": "gpqa", "job_dir": "/lustre/runs/x/gpqa", "job_id": "4711", "error": None},
        {"benchmark": "aime", "job_dir": "/lustre/runs/x/aime", "job_id": None, "error": "sbatch: no"},
    ],
    "hostname": None,
    "executor_metadata": {},
    "schema_version": 1,
}


def record(**changes: object) -> SubmissionRecord:
    return SubmissionRecord.load({**OLD_PAYLOAD, **changes})


def test_a_record_written_before_labels_existed_is_read_with_defaults():
    old = SubmissionRecord.load(OLD_PAYLOAD)
    assert old.labels == {}
    assert old.config_digest is None
    assert old.benchmarks[0] == BenchmarkEntry(
        benchmark="gpqa", job_dir="/lustre/runs/x/gpqa", job_id="4711", error=None
    )
    assert [entry.benchmark for entry in old.failed] == ["aime"]


def test_a_record_is_read_back_from_its_own_bytes_and_written_in_the_documented_order():
    mine = record(labels={"team": "a"}, config_digest="ff")
    text = mine.dumps()
    assert SubmissionRecord.load(json.loads(text)) == mine
    assert text.endswith(b"}\n")
    assert list(json.loads(text))[:12] == list(OLD_PAYLOAD)
    assert list(json.loads(text)["benchmarks"][0]) == ["benchmark", "job_dir", "job_id", "error"]


def test_a_benchmark_of_a_campaign_names_its_model_and_the_folder_of_the_job_that_it_shares():
    payload = {**OLD_PAYLOAD["benchmarks"][0], "benchmark": "small.gpqa", "job_dir": "/x/small.gpqa"}
    mine = record(benchmarks=[{**payload, "model": "small"}])
    (entry,) = mine.benchmarks
    assert (entry.task, entry.queue_dir) == ("gpqa", "/x/small")
    assert SubmissionRecord.load(json.loads(mine.dumps())) == mine
    (alone,) = record(benchmarks=[payload]).benchmarks
    assert (alone.task, alone.queue_dir) == ("small.gpqa", "/x/small.gpqa")
    with pytest.raises(DataError, match="model"):
        record(benchmarks=[{**payload, "model": "../small"}])


def test_a_field_that_a_later_gym_added_is_passed_over():
    payload = {**OLD_PAYLOAD, "mood": "good"}
    payload["benchmarks"] = [{**OLD_PAYLOAD["benchmarks"][0], "nodes": 3}]
    assert SubmissionRecord.load(payload).cluster == "big"


def test_a_field_that_was_removed_within_the_version_does_not_orphan_a_record():
    payload = {key: value for key, value in OLD_PAYLOAD.items() if key not in ("submitted_by", "hostname")}
    assert SubmissionRecord.load(payload).hostname is None


def test_a_missing_schema_version_is_a_clear_error():
    payload = {key: value for key, value in OLD_PAYLOAD.items() if key != "schema_version"}
    with pytest.raises(DataError, match="its schema_version is missing"):
        SubmissionRecord.load(payload)


def test_a_record_of_a_newer_gym_is_refused_saying_which_side_is_newer():
    with pytest.raises(DataError, match=r"schema_version 2 .* written by a newer Gym.* reads up to 1"):
        record(schema_version=SCHEMA_VERSION + 1)


@pytest.mark.parametrize("version", ["1", 1.0, True, [1]])
def test_a_schema_version_that_is_no_whole_number_is_refused(version: object):
    with pytest.raises(DataError, match="is a whole number"):
        record(schema_version=version)


@pytest.mark.parametrize("version", range(-2, SCHEMA_VERSION + 1))
def test_every_version_at_or_below_our_own_is_read(version: int):
    assert record(schema_version=version).schema_version == version


def test_a_schema_version_of_null_is_as_good_as_missing():
    with pytest.raises(DataError, match="its schema_version is missing"):
        record(schema_version=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run_dir": None}, "run_dir must be text; null was found"),
        ({"run_dir": "/a\0b"}, "run_dir must not hold a zero byte"),
        ({"gym_job_id": ""}, "gym_job_id must be a name"),
        ({"gym_job_id": "../x"}, "gym_job_id must be a name"),
        (
            {"benchmarks": [{"benchmark": "../../etc", "job_dir": "/x", "job_id": "1"}]},
            "benchmark must be a name",
        ),
        ({"benchmarks": {}}, "benchmarks must be a list of mappings"),
        (
            {"benchmarks": [{"benchmark": "a", "job_dir": "/a"}]},
            r"benchmarks\[0\]: the field job_id is missing",
        ),
        ({"executor_metadata": {"a": 1}}, "executor_metadata must be text"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(changes: dict[str, object], message: str):
    with pytest.raises(DataError, match=message):
        record(**changes)


def test_a_missing_field_is_named_with_the_record():
    payload = {key: value for key, value in OLD_PAYLOAD.items() if key != "executor"}
    with pytest.raises(DataError, match="gym-job-20261012T101112Z-0a1b2c: the field executor is missing"):
        SubmissionRecord.load(payload)


def test_an_executor_nobody_has_heard_of_does_not_change_the_schema():
    assert record(executor="moonbase", executor_metadata={"crater": "7"}).executor == "moonbase"


def test_no_field_is_named_after_a_scheduler():
    assert "slurm" not in json.dumps(record(executor="local", benchmarks=[]).to_json())


def test_the_documented_import_loads_no_executor_and_nothing_heavy():
    program = (
        "import sys; from nemo_gym.orchestration.jobs import SubmissionRecord; "
        "print([m for m in sys.modules if 'executors' in m or m in ('pydantic', 'yaml', 'omegaconf')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
