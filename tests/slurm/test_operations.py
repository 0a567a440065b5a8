"""`gym job` on the real Slurm: status, logs, resubmission of a chain, and that a cancellation is the end."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.slurm.lab import RealSlurm, until
from tests.slurm.test_slurm_executor import Student

from nemo_gym.job_paths import JobPaths
from nemo_runs.durable.journal import read_journal
from nemo_slurm.observing import has_ended

pytestmark = [pytest.mark.slurm, pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def student(slurm: RealSlurm, tmp_path: Path) -> Student:
    return Student(tmp_path, slurm)


def chain(student: Student, *, gate: Path | None = None, **compute: Any) -> tuple[dict[str, Any], JobPaths]:
    """A resumable benchmark once it has its first row.

    The others come when ``gate`` is there; without one each takes a while, little enough to end in a drain.
    """
    config = student.config(compute=compute)
    config["driver"]["benchmarks"]["sums"] |= {"resumable": True}
    config["driver"]["benchmarks"]["sums"]["run"]["num_samples_in_parallel"] = 1
    config["services"]["policy"]["command"] += f" answers=1 open-when={gate}" if gate else " delay=1.5"
    record = student.submit(config)
    paths = JobPaths(Path(record["benchmarks"][0]["job_dir"]))
    until(lambda: paths.rollouts.output.exists() and paths.rollouts.output.read_text(), timeout=60)
    return record, paths


def status(student: Student, record: dict[str, Any]) -> dict[str, Any]:
    done = student.gym("job", "status", record["gym_job_id"], "--json")
    return dict(json.loads(done.stdout)["submissions"][0]["benchmarks"][0])


def reaches(student: Student, record: dict[str, Any], state: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = status(student, record)
        return found if found["state"] == state else None

    found = until(look, timeout=60, every=0.5)
    assert found is not None
    return found


def drivers(paths: JobPaths) -> list[str]:
    """The jobs whose drivers began."""
    return [event["job_id"] for event in read_journal(paths.events) if event["event"] == "driver_started"]


def queued(student: Student) -> list[str]:
    """Jobs of this test that wait, run or are ending."""
    rows = student.slurm.cluster.queue_of(student.slurm.prefix)
    return [row.id for row in rows if not has_ended(row.state)]


def test_after_our_cancel_nothing_of_a_chain_works_and_nothing_is_left_in_the_queue(student: Student) -> None:
    record, paths = chain(student)
    until(lambda: len(queued(student)) == 2)
    done = student.gym("job", "cancel", record["gym_job_id"], "sums", "--reason", "wrong", "--json")
    [outcome] = json.loads(done.stdout)["benchmarks"]
    first = record["benchmarks"][0]["job_id"]
    assert (outcome["state"], outcome["alive"], outcome["unsure"]) == ("cancelled", [], [])
    assert outcome["asked"][1] == first, "what waits is asked first"
    assert queued(student) == []
    time.sleep(2)
    assert (queued(student), drivers(paths)) == ([], [first])
    assert status(student, record)["cause"] == "a person"


def test_after_a_bare_scancel_the_successor_finds_out_and_does_no_work(student: Student) -> None:
    record, paths = chain(student)
    until(lambda: len(queued(student)) == 2)
    first = record["benchmarks"][0]["job_id"]
    subprocess.run(["scancel", first], check=True)
    found = reaches(student, record, "cancelled")
    until(lambda: queued(student) == [], timeout=60)
    found = status(student, record)
    assert (found["state"], found["cause"], drivers(paths)) == ("cancelled", "a person", [first])


def test_a_chain_is_shown_across_its_jobs_and_resubmitted_in_place(student: Student, tmp_path: Path) -> None:
    record, paths = chain(student, gate=tmp_path / "open")
    first = record["benchmarks"][0]["job_id"]
    running = status(student, record)
    assert (running["state"], running["job_id"], running["expected"]) == ("running", first, 4)
    refused = student.gym("job", "resubmit", record["gym_job_id"], "sums", status=5)
    assert f"is alive (job {first}" in refused.stderr
    student.gym("job", "cancel", record["gym_job_id"], "sums")
    (tmp_path / "open").touch()
    again = json.loads(student.gym("job", "resubmit", record["gym_job_id"], "sums", "--json").stdout)
    done = reaches(student, record, "succeeded")
    assert (done["job_id"], done["done"], done["notes"]) == (again["job_id"], 4, [])
    assert student.rows(paths) == 4
    log = student.gym("job", "logs", record["gym_job_id"], "sums").stdout
    assert [line.split()[4] for line in log.splitlines() if line.startswith("==> ")] == [
        first,
        again["job_id"],
    ]
    until(lambda: queued(student) == [])


HARNESS = """\
import json, os, sys, time
from pathlib import Path
outputs = Path(os.environ["NEMO_GYM_OUTPUTS"])
if "--go-on" not in sys.argv:
    (outputs / "half.json").write_text("3")
    time.sleep(600)
half = json.loads((outputs / "half.json").read_text())
samples = [{"id": number, "score": number < 3, "answer": "x"} for number in range(half + 1)]
(outputs / "results.json").write_text(json.dumps({"samples": samples, "accuracy": 0.75}))
"""


def test_another_harness_goes_on_in_the_next_job_of_its_chain(student: Student, tmp_path: Path) -> None:
    """It is asked to end ahead of the time limit, and what it had begun is there for its next start."""
    (tmp_path / "harness.py").write_text(HARNESS)
    command = {
        "argv": [sys.executable, "harness.py"],
        "resume_args": ["--go-on"],
        "working_folder": str(tmp_path),
        "files": [str(tmp_path / "harness.py")],
        "results": {"path": "results.json", "samples": "samples", "score": "accuracy", "answer": "answer"},
    }
    run = {"benchmark": {"name": "theirs", "command": command}}
    record = student.submit(
        student.config(
            driver={"policy_model": "policy", "benchmarks": {"theirs": {"resumable": True, "run": run}}}
        )
    )
    paths = JobPaths(Path(record["benchmarks"][0]["job_dir"]))
    first = record["benchmarks"][0]["job_id"]
    until(lambda: list(paths.artifacts.glob("**/half.json")), timeout=60)
    subprocess.run(["scancel", "--batch", "--signal=USR1", first], check=True)
    done = reaches(student, record, "succeeded")
    assert drivers(paths) == [first, done["job_id"]]
    assert paths.link(first).end.read_text().startswith("drained 75 walltime\n"), student.said(paths)
    results = json.loads(student.gym("job", "results", record["gym_job_id"], "--json").stdout)["results"]
    (found,) = results
    assert (found["status"], found["score"], found["expected"]) == ("complete", 0.75, 4)
    until(lambda: queued(student) == [])


def test_a_cluster_that_is_reached_over_ssh_is_asked_in_one_look(student: Student, tmp_path: Path) -> None:
    record, paths = chain(student, gate=tmp_path / "open", hostname="lab")
    running = status(student, record)
    assert (running["state"], running["expected"], running["silent"]) == ("running", 4, "")
    student.gym("job", "cancel", record["gym_job_id"], "sums")
    assert paths.cancelled.exists()
    assert "driver log: " in student.gym("job", "info", record["gym_job_id"]).stdout
    (tmp_path / "open").touch()
    student.gym("job", "resubmit", record["gym_job_id"], "sums", "--reason", "over ssh")
    assert reaches(student, record, "succeeded")["done"] == 4
    assert student.gym("job", "logs", record["gym_job_id"], "sums", "--tail", "1").stdout


def test_a_job_that_was_requeued_and_held_is_shown_with_the_command_that_releases_it(
    student: Student, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    config_args = {"extra_args": {"mem": "300M", "requeue": True}}
    record, _ = chain(student, gate=gate, **config_args)
    first = record["benchmarks"][0]["job_id"]
    until(lambda: len(queued(student)) == 2)
    student.slurm.control("requeuehold", first)
    found = reaches(student, record, "queued")
    assert (found["job_id"], found["next_command"]) == (first, f"scontrol release {first}")
    assert found["reason"].startswith("job requeued in held state: ")
    gate.touch()
    subprocess.run(["bash", "-c", found["next_command"]], check=True)
    assert reaches(student, record, "succeeded")["done"] == 4
