"""What is written before the first job is queued: enough to know the run again, and to see changes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.local_jobs import Workplace

from nemo_gym.errors import GymError, RefusedError
from nemo_gym.orchestration import adopt, sealing, staging
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.record_files import create
from nemo_runs.secret_refs import SecretText

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
    sealing.write(record, "compute: {}\n", submission, to=create)
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
    assert list(sealing.changes(plan.job_dir)) == []


def test_nothing_is_told_of_a_run_as_it_was_queued(run):
    assert list(sealing.changes(run[1].job_dir)) == []


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
    (said,) = sealing.changes(plan.job_dir)
    assert said == (
        f"not as it was queued: {path.relative_to(plan.job_dir)}; a job that starts now ends at once: "
        "put it back as it was"
    )
    with pytest.raises(RefusedError, match=f"{name} in .*: not as it was queued; put it back"):
        sealing.refuse_changed(plan.job_dir, Path.read_bytes)


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_what_jobs_do_not_read_may_differ_and_it_is_said_what_they_run(run, how):
    plan = run[1]
    altered(plan.job_dir / "run.yaml", how)
    (said,) = sealing.changes(plan.job_dir)
    assert said == (
        "changed since it was queued: run.yaml; its jobs run what was submitted: to run something else, "
        "submit it"
    )
    sealing.refuse_changed(plan.job_dir, Path.read_bytes)


def test_a_job_of_slurm_has_its_script_from_the_scheduler(run):
    submission, plan, _ = run
    path = submission.run_dir / ".gym_submission.json"
    document = json.loads(path.read_text())
    document["record"]["executor"] = "slurm"
    path.write_text(json.dumps(document))
    altered(plan.job_dir / "job.sh", "changed")
    (said,) = sealing.changes(plan.job_dir)
    assert said.startswith("changed since it was queued: job.sh; its jobs run what was submitted")
    with pytest.raises(RefusedError, match=r"job\.sh"):
        sealing.refuse_changed(plan.job_dir, Path.read_bytes)


def test_the_jobs_of_a_version_that_sealed_nothing_read_what_is_there(run):
    submission, plan, _ = run
    path = submission.run_dir / ".gym_submission.json"
    document = json.loads(path.read_text())
    seals = document["sealed"][plan.benchmark]
    document["sealed"][plan.benchmark] = {"job.sh": seals["job.sh"], "shell/chain.sh": "sha256:0"}
    path.write_text(json.dumps(document))
    altered(plan.job_dir / "job.sh", "changed")
    (said,) = sealing.changes(plan.job_dir)
    assert (
        said
        == "changed since it was queued: job.sh, shell/chain.sh; a job that starts now reads what is there"
    )
    sealing.refuse_changed(plan.job_dir, Path.read_bytes)


def test_nothing_is_queued_when_it_cannot_be_written(run, tmp_path):
    submission, _, record = run

    def refuse(_path, _data, _mode):
        raise PermissionError(13, "Permission denied")

    with pytest.raises(
        GymError, match=r"\.gym_submission\.json cannot be written \(Permission denied\); nothing"
    ):
        sealing.write(record, "", submission, to=refuse)


def test_a_run_of_an_older_gym_has_no_seal_and_no_warning(run):
    submission, plan, _ = run
    (submission.run_dir / ".gym_submission.json").unlink()
    assert list(sealing.changes(plan.job_dir)) == []
    (submission.run_dir / ".gym_submission.json").write_text(json.dumps([]))
    assert list(sealing.changes(plan.job_dir)) == []
