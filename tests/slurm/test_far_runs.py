"""Runs of a cluster that is reached over ssh: certified, billed, and known again after the list was lost."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.slurm.lab import RealSlurm
from tests.slurm.test_slurm_executor import Student

from nemo_gym.orchestration.config.price_schema import PriceList
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import locations, remote_copy
from nemo_gym.orchestration.results import bill_report, verify

pytestmark = [pytest.mark.slurm, pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def student(slurm: RealSlurm, tmp_path: Path) -> Student:
    return Student(tmp_path, slurm)


def test_a_run_is_certified_billed_and_found_again_over_ssh(student: Student, tmp_path: Path) -> None:
    record = student.submit(student.config(compute={"hostname": "lab"}))
    student.ended(record)
    known = SubmissionRecord.load(record)
    said: list[str] = []
    # the lab is this machine, so that what a command would read here is left out
    with remote_copy.RemoteCopy(remote_copy.for_certificate(None), report=said.append, why="rows") as near:
        there = verify.verify(near.brought(known), None)
    here = verify.verify(locations.location_of(known), None)
    assert (there.valid, there.run_dir) == (True, f"lab:{known.run_dir}")
    assert there.benchmarks[0].certificate == here.benchmarks[0].certificate
    with remote_copy.RemoteCopy(remote_copy.for_bill, report=said.append, why="times") as near:
        billed = bill_report.to_json(bill_report.bills_of(near.brought(known), PriceList()))
    assert billed == bill_report.to_json(bill_report.bills_of(locations.location_of(known), PriceList()))
    assert billed["total"]["owners_ms"]["useful"] > 0
    assert len(said) == 2

    cache = tmp_path / "lost list"
    student.environ["XDG_CACHE_HOME"] = str(cache)
    words = ("job", "rebuild", "--from-scheduler", "--hostname", "lab", "--json")
    # jobs of other tests are found too, so the status is whatever they make of it
    told = subprocess.run(
        [str(student.program), *words],
        cwd=student.home,
        env=student.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    adopted = {row["gym_job_id"]: row for row in json.loads(told.stdout)["adopted"]}
    assert adopted[known.gym_job_id]["run_dir"] == known.run_dir
    index = cache / "nemo-gym" / "jobs" / f"{known.gym_job_id}.json"
    assert SubmissionRecord.load(json.loads(index.read_text())) == replace(known, hostname="lab")

    shutil.rmtree(cache)
    (Path(known.run_dir) / "gym-job.json").unlink()
    parent = str(Path(known.run_dir).parent)
    found = student.gym("job", "rebuild", "--hostname", "lab", "--output-path", parent, "--json")
    assert [row["what"] for row in json.loads(found.stdout)["adopted"]] == ["made"]
    assert json.loads((Path(known.run_dir) / "gym-job.json").read_text())["hostname"] == "lab"
    found = student.gym("job", "adopt", "--hostname", "lab", known.run_dir)
    assert found.stdout.split()[:2] == [known.gym_job_id, "known"]
