"""How `gym job logs` understands its words."""

import pytest

from nemo_gym.cli.job.logs import _named
from nemo_gym.errors import GymError, UsageError
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import index


@pytest.fixture
def submission(tmp_path):
    def write(*benchmarks):
        record = SubmissionRecord(
            gym_job_id="gym-job-20261129T000000Z-00000a",
            gym_version="0.1.0",
            gym_commit=None,
            submitted_at="2026-11-29T00:00:00Z",
            run_dir=str(tmp_path),
            cluster="here",
            executor="local",
            submitted_by="ada",
            benchmarks=[
                BenchmarkEntry(benchmark=name, job_dir=str(tmp_path / name), job_id="1", error=None)
                for name in benchmarks
            ],
        )
        index.write_records(record, "", report=print)
        return record.gym_job_id

    return write


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        ((None, None), ("sums", None)),
        (("sums", None), ("sums", None)),
        (("job", None), ("sums", "job")),
        (("sums", "policy"), ("sums", "policy")),
    ],
)
def test_the_only_benchmark_need_not_be_named(submission, words, understood):
    assert _named(submission("sums"), *words)[1:] == understood


def test_of_several_benchmarks_one_must_be_named(submission):
    name = submission("sums", "gpqa")
    with pytest.raises(UsageError, match=r"has 2 benchmarks; name one: sums, gpqa\."):
        _named(name, None, None)
    with pytest.raises(GymError, match="has no benchmark 'job'"):
        _named(name, "job", None)
    assert _named(name, "gpqa", None)[1:] == ("gpqa", None)
