"""What is written before the first job is queued: enough to know the run again, and to see changes."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.local_jobs import Workplace

from nemo_gym.errors import GymError, RefusedError
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import adopt, run_files, submission_file
from nemo_gym.orchestration.records.index import create
from nemo_gym.orchestration.records.run_files import HostRunFiles
from nemo_gym.orchestration.submit import staging
from nemo_runs.secret_refs import SecretText
from nemo_slurm.hosts import LocalHost

CANARY = "canary'\nwith a second line"


@pytest.fixture
def run(tmp_path):
    place = Workplace(tmp_path)
    plan = place.plan(secrets={"TOKEN": SecretText(CANARY)})
    submission = place.submission(plan)
    staging.stage(submission)
    record = SubmissionRecord(
        gym_job_id=submission.gym_job_id,
        gym_version="1.2.3",
        gym_commit="abc",
        submitted_at="2027-01-15T08:00:00Z",
        run_dir=str(submission.run_dir),
        cluster="here",
        executor="local",
        submitted_by="me",
        benchmarks=(BenchmarkEntry(benchmark=plan.benchmark, job_dir=str(plan.job_dir)),),
        labels={"team": "a"},
        config_digest="d",
    )
    submission_file.write(record, "compute: {}\n", submission, to=create)
    return submission, plan, record


def test_a_run_whose_records_were_never_written_is_known_again_with_all_that_was_submitted(run):
    submission, plan, record = run
    (plan.job_dir / ".gym_events.jsonl").write_text('{"event": "submitted", "job_id": "4711"}\n')
    again = adopt.made_again(submission.run_dir, now=datetime(2027, 1, 16, tzinfo=UTC))
    assert again.benchmarks[0].job_id == "4711"
    assert (again.labels, again.gym_version, again.gym_commit) == ({"team": "a"}, "1.2.3", "abc")
    assert again.executor_metadata == {adopt.ADOPTED: "2027-01-16T00:00:00Z"}
    assert again.config_digest == record.config_digest


def test_no_secret_value_and_no_digest_of_one_is_in_it(run):
    submission, plan, _ = run
    text = (submission.run_dir / ".gym_submission.json").read_text()
    assert "canary" not in text
    script = plan.job_dir / "job.sh"
    assert CANARY.split("\n")[1] in script.read_text()
    script.write_text(script.read_text().replace("with a second line", "another value"))
    assert list(submission_file.changes(plan.job_dir)) == []


def test_nothing_is_told_of_a_run_as_it_was_queued(run):
    assert list(submission_file.changes(run[1].job_dir)) == []


def sealed(plan, name):
    """A file that a job of the plan reads."""
    return next((plan.job_dir / "sealed").glob(f"*/{name}"))


def altered(path, how):
    if how == "changed":
        path.chmod(0o644)
        path.write_text(path.read_text() + "\n# one more line\n")
    else:
        path.unlink()
    return path


@pytest.mark.parametrize("name", ["job.sh", "chain.sh", "states.tsv", "run.yaml"])
@pytest.mark.parametrize("how", ["changed", "removed"])
def test_a_file_without_which_no_job_can_do_what_was_queued_is_named(run, name, how):
    plan = run[1]
    path = altered(plan.job_dir / name if name == "job.sh" else sealed(plan, name), how)
    (said,) = submission_file.changes(plan.job_dir)
    assert said == (
        f"not as it was queued: {path.relative_to(plan.job_dir)}; a job that starts now ends at once: "
        "put it back as it was"
    )
    with pytest.raises(RefusedError, match=f"{name} in .*: not as it was queued; put it back"):
        submission_file.refuse_changed(plan.job_dir, Path.read_bytes)


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_what_jobs_do_not_read_may_differ_and_it_is_said_what_they_run(run, how):
    plan = run[1]
    altered(plan.job_dir / "run.yaml", how)
    (said,) = submission_file.changes(plan.job_dir)
    assert said == (
        "changed since it was queued: run.yaml; its jobs run what was submitted: to run something else, "
        "submit it"
    )
    submission_file.refuse_changed(plan.job_dir, Path.read_bytes)


def test_a_job_of_slurm_has_its_script_from_the_scheduler(run):
    submission, plan, _ = run
    path = submission.run_dir / ".gym_submission.json"
    document = json.loads(path.read_text())
    document["record"]["executor"] = "slurm"
    path.write_text(json.dumps(document))
    altered(plan.job_dir / "job.sh", "changed")
    (said,) = submission_file.changes(plan.job_dir)
    assert said.startswith("changed since it was queued: job.sh; its jobs run what was submitted")
    with pytest.raises(RefusedError, match=r"job\.sh"):
        submission_file.refuse_changed(plan.job_dir, Path.read_bytes)


def test_the_jobs_of_a_version_that_sealed_nothing_read_what_is_there(run):
    submission, plan, _ = run
    path = submission.run_dir / ".gym_submission.json"
    document = json.loads(path.read_text())
    seals = document["sealed"][plan.benchmark]
    document["sealed"][plan.benchmark] = {"job.sh": seals["job.sh"], "shell/chain.sh": "sha256:0"}
    path.write_text(json.dumps(document))
    altered(plan.job_dir / "job.sh", "changed")
    (said,) = submission_file.changes(plan.job_dir)
    assert (
        said
        == "changed since it was queued: job.sh, shell/chain.sh; a job that starts now reads what is there"
    )
    submission_file.refuse_changed(plan.job_dir, Path.read_bytes)


def test_nothing_is_queued_when_it_cannot_be_written(run, tmp_path):
    submission, _, record = run

    def refuse(_path, _data, _mode):
        raise PermissionError(13, "Permission denied")

    with pytest.raises(
        GymError, match=r"\.gym_submission\.json cannot be written \(Permission denied\); nothing"
    ):
        submission_file.write(record, "", submission, to=refuse)


def test_a_run_of_an_older_gym_has_no_seal_and_no_warning(run):
    submission, plan, _ = run
    (submission.run_dir / ".gym_submission.json").unlink()
    assert list(submission_file.changes(plan.job_dir)) == []
    (submission.run_dir / ".gym_submission.json").write_text(json.dumps([]))
    assert list(submission_file.changes(plan.job_dir)) == []


ROWS = b'{"question": "1 + 1", "answer": 2}\n'


@pytest.fixture(params=["copied", "where it is"])
def with_data(request, tmp_path):
    """A run whose rows were copied into its folder, or lie elsewhere; the file that its job reads."""
    place, source = Workplace(tmp_path), tmp_path / "my rows" / "rows.jsonl"
    source.parent.mkdir()
    source.write_bytes(ROWS)
    job_dir = place.plan().job_dir
    copied = request.param == "copied"
    read = job_dir / "inputs" / "rows.jsonl" if copied else source
    run = {"input_jsonl_fpath": str(read)}
    plan = place.plan(run=run, inputs={source: read} if copied else {})
    submission = place.submission(plan)
    staging.stage(submission)
    entry = BenchmarkEntry(benchmark=plan.benchmark, job_dir=str(plan.job_dir), job_id="7")
    record = SubmissionRecord(
        gym_job_id=submission.gym_job_id,
        gym_version="1",
        gym_commit=None,
        submitted_at="2027-01-15T08:00:00Z",
        run_dir=str(submission.run_dir),
        cluster="there",
        executor="slurm",
        submitted_by="me",
        benchmarks=(entry,),
    )
    submission_file.write(record, "compute: {}\n", submission, to=create)
    return plan, read


def there(plan):
    """What is told of the folder as one of another machine."""
    look = HostRunFiles(LocalHost()).look([plan.job_dir])
    return list(submission_file.changes_there(plan.job_dir, look))


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_rows_that_were_changed_before_a_job_reads_them_are_named(with_data, how):
    plan, read = with_data
    assert list(submission_file.changes(plan.job_dir)) == there(plan) == []
    altered(read, how)
    if read.is_relative_to(plan.job_dir):
        (said,) = there(plan)
        assert said.startswith("not as it was queued: inputs/rows.jsonl; a job that starts now ends at once")
        assert list(submission_file.changes(plan.job_dir)) == [said]
    else:
        said = f"changed since it was queued: {read}; a job that starts now reads what is there"
        assert list(submission_file.changes(plan.job_dir)) == [said]
        assert there(plan) == []  # it is another machine's file of that name, of which its jobs tell
    submission_file.refuse_changed(plan.job_dir, Path.read_bytes)


def test_large_rows_are_left_to_the_jobs_that_read_them(with_data, monkeypatch):
    plan, read = with_data
    altered(read, "changed")
    os.utime(plan.job_dir / "job.sh", (1, 1))  # long before it was submitted: clocks of files tick slowly
    for module in (submission_file, run_files):
        monkeypatch.setattr(module, "HASHED", 0)
    assert list(submission_file.changes(plan.job_dir)) == []
    look = HostRunFiles(LocalHost()).look([plan.job_dir])
    assert set(look.digests[plan.job_dir].values()) == {run_files.UNREAD}


@pytest.mark.parametrize("name", ["job.sh", "chain.sh", "states.tsv", "run.yaml"])
@pytest.mark.parametrize("how", ["changed", "removed"])
def test_of_a_run_on_another_machine_the_same_is_told(run, name, how):
    plan = run[1]
    assert there(plan) == []
    altered(plan.job_dir / name if name == "job.sh" else sealed(plan, name), how)
    assert there(plan) == list(submission_file.changes(plan.job_dir)) != []


def test_another_secret_is_no_change_there_and_its_value_does_not_travel(run):
    plan = run[1]
    script = plan.job_dir / "job.sh"
    script.write_text(script.read_text().replace("with a second line", "another value"))
    host = LocalHost()
    said, original = [], host.run

    def listening(*args, **kwargs):
        done = original(*args, **kwargs)
        said.append(done.stdout)
        return done

    host.run = listening
    look = HostRunFiles(host).look([plan.job_dir])
    assert list(submission_file.changes_there(plan.job_dir, look)) == []
    assert len(said) == 1  # one round trip for all of it
    assert "canary" not in said[0]
    assert look.digests[plan.job_dir]["job.sh"] != run_files.UNREAD


def test_where_no_digest_can_be_made_nothing_is_told(run, tmp_path, monkeypatch):
    plan = run[1]
    altered(sealed(plan, "chain.sh"), "changed")
    programs = tmp_path / "few programs"
    programs.mkdir()
    for name in ("bash", "sh", "date", "find", "xargs", "tar", "gzip", "sed"):
        (programs / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(programs))
    assert there(plan) == []


def test_a_damaged_account_of_what_was_submitted_tells_nothing_there(run):
    submission, plan, _ = run
    altered(sealed(plan, "chain.sh"), "changed")
    for text in ("", "[]", "{", json.dumps({"sealed": []})):
        (submission.run_dir / ".gym_submission.json").write_text(text)
        assert there(plan) == []
