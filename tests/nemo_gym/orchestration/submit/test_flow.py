"""The flow of a submission, with an executor that runs nothing."""

import dataclasses
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.nemo_gym.orchestration.submit_files import write

from nemo_gym.chain.observation import JobObservation
from nemo_gym.errors import BusyError, ConfigError, GymError, SubmitError, UnsupportedError
from nemo_gym.orchestration.config.resolve import resolve
from nemo_gym.orchestration.executors.base import JobRef, Queued
from nemo_gym.orchestration.executors.fake import FakeJobExecutor, FakeQueue
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.plan.values import Submission
from nemo_gym.orchestration.records import adopt, index
from nemo_gym.orchestration.submit import submitting_host
from nemo_gym.orchestration.submit.flow import SubmitContext, SubmitRequest, plan, submit
from nemo_gym.provenance import Provenance

NOON = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
CANARY = "canary-8-of-a-secret"
TWO = {"driver/benchmarks/times": {"command": "true"}}
SECRET = {"driver/env": {"HF_TOKEN": "host:CANARY"}}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stage(submission: Submission) -> None:
    submission.run_dir.mkdir(parents=True)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def context(tmp_path: Path, said: list[str]) -> SubmitContext:
    return SubmitContext(
        executor=FakeJobExecutor(),
        stage=stage,
        provenance=lambda: Provenance("0.1.0", "abc-dirty"),
        environ={"CANARY": CANARY},
        cwd=tmp_path,
        report=said.append,
        now=lambda: NOON,
    )


def order(folder: Path, changes: dict[str, Any] | None = None, **options: Any) -> SubmitRequest:
    return SubmitRequest(resolved=resolve(write(folder, changes), cwd=folder), **options)


def everything(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.rglob("*")) if path.is_file())


def test_the_record_holds_every_field_as_documented(tmp_path: Path, context: SubmitContext):
    mine = order(tmp_path, TWO, labels={"team": "a"})
    record = submit(mine, context)
    run_dir = tmp_path / "runs" / record.gym_job_id
    assert record.gym_job_id.startswith("gym-job-20261129T120000Z-")
    assert len(record.gym_job_id.rpartition("-")[2]) == 6
    int(record.gym_job_id.rpartition("-")[2], 16)
    assert record.to_json() == {
        "gym_job_id": record.gym_job_id,
        "gym_version": "0.1.0",
        "gym_commit": "abc-dirty",
        "submitted_at": "2026-11-29T12:00:00Z",
        "run_dir": str(run_dir),
        "cluster": "here",
        "executor": "fake",
        "submitted_by": submitting_host.username(),
        "benchmarks": [
            {"benchmark": "sums", "job_dir": f"{run_dir}/sums", "job_id": "fake-1", "error": None},
            {"benchmark": "times", "job_dir": f"{run_dir}/times", "job_id": "fake-2", "error": None},
        ],
        "hostname": None,
        "executor_metadata": {},
        "schema_version": 1,
        "labels": {"team": "a"},
        "config_digest": mine.resolved.digest,
    }
    assert run_dir.is_absolute()
    assert json.loads((run_dir / "gym-job.json").read_text()) == record.to_json()
    assert (run_dir / "resolved-config.yaml").read_text() == mine.resolved.to_yaml()
    assert index.find("latest", report=print) == record


def test_the_time_is_utc_whatever_the_clock_says(tmp_path: Path, context: SubmitContext):
    from datetime import timedelta, timezone

    local = NOON.astimezone(timezone(timedelta(hours=9)))
    record = submit(order(tmp_path), dataclasses.replace(context, now=lambda: local))
    assert record.submitted_at == "2026-11-29T12:00:00Z"
    assert record.gym_job_id[8:24] == "20261129T120000Z"


def test_an_unknown_commit_is_null_and_said(tmp_path: Path, context: SubmitContext, said: list[str]):
    unknown = Provenance("0.1.0", None, "git is not there to be asked")
    assert (
        submit(order(tmp_path), dataclasses.replace(context, provenance=lambda: unknown)).gym_commit is None
    )
    assert said == ["warning: the commit of this Gym is not known: git is not there to be asked."]


def test_a_benchmark_that_cannot_be_queued_shifts_no_other_and_is_recorded(
    tmp_path: Path, context: SubmitContext
):
    refusing = FakeJobExecutor(FakeQueue(refused=["sums"]))
    record = submit(order(tmp_path, TWO), dataclasses.replace(context, executor=refusing))
    sums, times = record.benchmarks
    assert (sums.job_id, sums.error) == (None, "the fake cluster refuses this benchmark")
    assert (times.job_id, times.error) == ("fake-1", None)
    assert [entry.benchmark for entry in record.failed] == ["sums"]
    assert (Path(record.run_dir) / "gym-job.json").is_file()


class Silent(FakeJobExecutor):
    """Answers out of order, and not for every benchmark."""

    def submit(self, submission: Submission) -> list[Queued]:
        return [Queued("times", "fake-7"), Queued("nobody", "fake-8")]


class Leaking(FakeJobExecutor):
    """Repeats a secret in its error."""

    def submit(self, submission: Submission) -> list[Queued]:
        return [Queued("sums", None, f"cannot run HF_TOKEN={CANARY} sbatch")]


def test_answers_are_matched_by_name_and_a_missing_one_is_a_failure(tmp_path: Path, context: SubmitContext):
    record = submit(order(tmp_path, TWO), dataclasses.replace(context, executor=Silent()))
    assert [(entry.benchmark, entry.job_id) for entry in record.benchmarks] == [
        ("sums", None),
        ("times", "fake-7"),
    ]
    assert record.benchmarks[0].error == "the executor gave no answer for this benchmark"


def test_job_id_is_null_exactly_when_there_is_an_error(tmp_path: Path, context: SubmitContext):
    for executor in (FakeJobExecutor(FakeQueue(refused=["times"])), Silent(), Leaking(), FakeJobExecutor()):
        mine = order(tmp_path, TWO, again=True)
        for entry in submit(mine, dataclasses.replace(context, executor=executor)).benchmarks:
            assert (entry.job_id is None) == (entry.error is not None)


def test_a_secret_is_in_no_file_that_submit_writes_and_in_no_message(
    tmp_path: Path, context: SubmitContext, said: list[str]
):
    record = submit(order(tmp_path / "a", SECRET), dataclasses.replace(context, executor=Leaking()))
    assert record.benchmarks[0].error == "cannot run HF_TOKEN=*** sbatch"
    text = everything(tmp_path)
    assert "host:CANARY" in text
    assert CANARY not in text
    assert CANARY not in repr(record) + "".join(said)


def test_a_secret_is_in_no_error_of_a_submission_that_could_not_be_recorded(
    tmp_path: Path, context: SubmitContext
):
    class Losing(FakeJobExecutor):
        def submit(self, submission: Submission) -> list[Queued]:
            shutil.rmtree(submission.run_dir)
            return super().submit(submission)

    with pytest.raises(SubmitError) as caught:
        submit(order(tmp_path, {**SECRET, **TWO}), dataclasses.replace(context, executor=Losing(FakeQueue())))
    assert "sums=fake-1, times=fake-2" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_telemetry_token_is_in_no_file_and_in_no_error(tmp_path: Path, context: SubmitContext):
    otel = {"otel": {"endpoint": "http://x", "service_name": "y", "token_env": "CANARY"}}
    record = submit(order(tmp_path, otel), dataclasses.replace(context, executor=Leaking()))
    assert record.benchmarks[0].error == "cannot run HF_TOKEN=*** sbatch"
    assert CANARY not in everything(tmp_path)


@pytest.mark.parametrize("token", ["", None])
def test_telemetry_without_a_token_is_refused_before_anything_is_written(
    tmp_path: Path, context: SubmitContext, token: str | None
):
    environ = {} if token is None else {"OTEL_TOKEN": token}
    otel = {"otel": {"endpoint": "http://x", "service_name": "y"}}
    with pytest.raises(ConfigError, match="OTEL_TOKEN is not set or empty"):
        submit(order(tmp_path, otel), dataclasses.replace(context, environ=environ))
    assert not (tmp_path / "runs").exists()


def test_what_the_executor_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path, context: SubmitContext
):
    with pytest.raises(UnsupportedError, match="only executors that support it"):
        submit(order(tmp_path, {"driver/benchmarks/sums/resumable": True}), context)
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "cache").exists()


def test_planning_writes_nothing(tmp_path: Path, context: SubmitContext):
    before = sorted(tmp_path.rglob("*"))
    mine = order(tmp_path)
    after_files = sorted(tmp_path.rglob("*"))
    plan(mine, context)
    assert sorted(tmp_path.rglob("*")) == after_files
    assert before == []


def test_a_twin_of_a_live_run_is_refused_and_said_which(tmp_path: Path, context: SubmitContext):
    first = submit(order(tmp_path), context)
    with pytest.raises(BusyError, match=rf"{first.gym_job_id} .* is queued \(job fake-1\); --again"):
        submit(order(tmp_path), context)
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_twin_is_submitted_when_asked_for_again(tmp_path: Path, context: SubmitContext):
    first = submit(order(tmp_path), context)
    second = submit(order(tmp_path, again=True), context)
    assert first.gym_job_id != second.gym_job_id


def test_a_run_that_has_ended_and_another_config_are_no_twins(tmp_path: Path, context: SubmitContext):
    executor = context.executor
    assert isinstance(executor, FakeJobExecutor)
    submit(order(tmp_path), context)
    submit(order(tmp_path, {"driver/env": {"A": "b"}}), context)
    executor.cluster.start("fake-1")
    with pytest.raises(BusyError, match="is running"):
        submit(order(tmp_path), context)
    executor.cluster.end("fake-1", 1)
    submit(order(tmp_path), context)


def test_the_resolved_config_of_a_live_run_is_its_twin(tmp_path: Path, context: SubmitContext):
    record = submit(order(tmp_path), context)
    path = Path(record.run_dir) / "resolved-config.yaml"
    with pytest.raises(BusyError, match=record.gym_job_id):
        submit(SubmitRequest(resolved=resolve(path, cwd=Path("/"))), context)


def test_without_an_index_a_submission_still_works(tmp_path: Path, context: SubmitContext, said: list[str]):
    (tmp_path / "cache").write_text("no folder")
    record = submit(order(tmp_path), context)
    assert (Path(record.run_dir) / "gym-job.json").is_file()
    assert "the submission is not affected" in said[0]


def draws(*values: str) -> Callable[[], str]:
    left = list(values)
    return lambda: left.pop(0)


def test_an_id_that_is_taken_is_never_used_again(tmp_path: Path, context: SubmitContext):
    first = submit(order(tmp_path), dataclasses.replace(context, token=draws("aaaaaa")))
    kept = (Path(first.run_dir) / "gym-job.json").read_bytes()
    again = dataclasses.replace(context, token=draws("aaaaaa", "bbbbbb"))
    second = submit(order(tmp_path, again=True), again)
    assert second.gym_job_id.endswith("-bbbbbb")
    assert (Path(first.run_dir) / "gym-job.json").read_bytes() == kept


@pytest.mark.slow
def test_twenty_submits_in_one_second_are_twenty_runs(tmp_path: Path, context: SubmitContext):
    """All at once, by a clock that stands still, with so few ids that they meet."""
    few, mine = random.Random(7), order(tmp_path, again=True)
    crowded = dataclasses.replace(context, token=lambda: f"{few.randrange(100):06x}")
    with ThreadPoolExecutor(20) as pool:
        records = list(pool.map(lambda _: submit(mine, crowded), range(20)))
    assert len({record.gym_job_id for record in records}) == 20
    assert len({record.benchmarks[0].job_id for record in records}) == 20
    for record in records:
        kept = json.loads((Path(record.run_dir) / "gym-job.json").read_text())
        assert kept["gym_job_id"] == record.gym_job_id


def test_a_run_directory_that_appeared_meanwhile_is_left_alone(tmp_path: Path, context: SubmitContext):
    theirs = tmp_path / "runs" / "gym-job-20261129T120000Z-aaaaaa"
    theirs.mkdir(parents=True)
    (theirs / "file").write_text("theirs")
    record = submit(order(tmp_path), dataclasses.replace(context, token=draws("aaaaaa", "bbbbbb")))
    assert record.run_dir.endswith("-bbbbbb")
    assert [path.name for path in theirs.iterdir()] == ["file"]


def test_warnings_are_said_once_even_when_the_id_was_taken(
    tmp_path: Path, context: SubmitContext, said: list[str]
):
    (tmp_path / "runs" / "gym-job-20261129T120000Z-aaaaaa").mkdir(parents=True)
    mine = order(tmp_path, {"driver/env": {"HF_TOKEN": "typed"}})
    submit(mine, dataclasses.replace(context, token=draws("aaaaaa", "bbbbbb")))
    assert len([sentence for sentence in said if "HF_TOKEN" in sentence]) == 1


def test_an_output_path_that_is_a_file_is_refused(tmp_path: Path, context: SubmitContext):
    mine = order(tmp_path, {"job/output_path": "rows.jsonl"})
    with pytest.raises(ConfigError, match=r"job\.output_path: .* is not a folder"):
        submit(mine, context)


def test_a_mount_that_is_not_there_is_named(tmp_path: Path, context: SubmitContext):
    nowhere = tmp_path / "nowhere"
    with pytest.raises(ConfigError, match=rf"services\.policy\.mounts: there is no {nowhere}"):
        submit(order(tmp_path, {"services/policy/mounts": [str(nowhere)]}), context)


def test_the_gym_of_the_config_must_be_there_and_is_used(tmp_path: Path, context: SubmitContext):
    with pytest.raises(ConfigError, match=r"driver\.gym: /nowhere/gym is not a program"):
        submit(order(tmp_path, {"driver/gym": "/nowhere/gym"}), context)
    program = tmp_path / "gym"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert plan(order(tmp_path, {"driver/gym": "./gym"}), context).jobs[0].gym == program
    assert plan(order(tmp_path), context).jobs[0].gym.name == "gym"


def test_a_staging_that_fails_queues_nothing(tmp_path: Path, context: SubmitContext):
    def full(submission: Submission) -> None:
        raise GymError("no space left")

    with pytest.raises(GymError, match="no space left"):
        submit(order(tmp_path), dataclasses.replace(context, stage=full))
    assert isinstance(context.executor, FakeJobExecutor)
    assert context.executor.submissions == []


class Interrupted(FakeJobExecutor):
    """Ctrl-C comes while the jobs are being queued."""

    def submit(self, submission: Submission) -> list[Queued]:
        os.kill(os.getpid(), signal.SIGINT)
        return super().submit(submission)


def test_an_interruption_while_queueing_waits_until_the_record_is_written(
    tmp_path: Path, context: SubmitContext
):
    with pytest.raises(KeyboardInterrupt):
        submit(order(tmp_path), dataclasses.replace(context, executor=Interrupted()))
    record = index.find("latest", report=print)
    assert (Path(record.run_dir) / "gym-job.json").is_file()
    assert record.benchmarks[0].job_id == "fake-1"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Blind(FakeJobExecutor):
    """Cannot see its jobs."""

    def observe(self, jobs: list[JobRef]) -> dict[str, JobObservation]:  # type: ignore[override]
        return {}


def test_a_run_that_cannot_be_seen_does_not_block_a_new_one(tmp_path: Path, context: SubmitContext):
    blind = dataclasses.replace(context, executor=Blind())
    submit(order(tmp_path), blind)
    assert isinstance(submit(order(tmp_path), blind), SubmissionRecord)


def test_what_recovery_needs_is_there_before_the_first_job_is_queued(tmp_path: Path, context: SubmitContext):
    seen: list[dict[str, object]] = []

    class Dying(FakeJobExecutor):
        def submit(self, submission: Submission) -> list[Queued]:
            seen.append(json.loads((submission.run_dir / ".gym_submission.json").read_bytes()))
            raise KeyboardInterrupt  # as a kill -9 between sbatch and the record

    with pytest.raises(KeyboardInterrupt):
        submit(order(tmp_path, TWO), dataclasses.replace(context, executor=Dying(FakeQueue())))
    (run_dir,) = (tmp_path / "runs").iterdir()
    assert not (run_dir / "gym-job.json").exists()
    assert yaml.safe_load(str(seen[0]["resolved_config"]))["job"]["output_path"] == str(tmp_path / "runs")
    again = adopt.made_again(run_dir, now=datetime.now(UTC))
    assert [entry.benchmark for entry in again.benchmarks] == ["sums", "times"]
    assert again.gym_commit == "abc-dirty"
