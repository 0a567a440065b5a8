"""Run directories of another machine that are known again, and those that are found through Slurm."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nemo_gym import job_paths
from nemo_gym.errors import GymError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.records import adopt_remote, index
from nemo_gym.orchestration.records.adopt_remote import NotAdopted
from nemo_slurm.errors import NotReachableError
from nemo_slurm.hosts import Completed, LocalHost

pytestmark = pytest.mark.services

ID = "gym-job-20261129T000001Z-00000a"
LOST = "gym-job-20261129T000002Z-00000b"
NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
CONFIG = """
compute: {big: {type: slurm, account: x, hostname: other}}
driver: {benchmarks: {sums: {run: {}}, more: {run: {}}}}
"""
PROGRAM = """\
#!/bin/sh
[ ! -e '{folder}/{name}.silent' ] || {{ echo 'Unable to contact slurm controller' >&2; exit 1; }}
cat '{folder}/{name}.says' 2>/dev/null || :
"""


class Far(LocalHost):
    """This machine under another name, which counts what it is asked."""

    name = "far"
    asked = 0

    def run(self, script: str, **options) -> Completed:
        self.asked += 1
        return super().run(script, **options)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One run directory with a record, one that has lost it, and a folder of something else."""
    runs = tmp_path / "it's runs"
    known, lost = RunPaths(runs / ID), RunPaths(runs / LOST)
    known.run_dir.mkdir(parents=True)
    known.record.write_bytes(record(known.run_dir).dumps())
    for name in ("sums", "more"):
        lost.job(name).job_dir.mkdir(parents=True)
    lost.resolved_config.write_text(CONFIG)
    lost.job("sums").events.write_text('{"event":"submitted","job_id":"7"}\n')
    for age, job_id in ((90, "9"), (95, "8")):
        link = lost.job("more").link(job_id).folder
        link.mkdir(parents=True)
        os.utime(link, (age, age))
    (runs / "something else").mkdir()
    return runs


def record(run_dir: Path) -> SubmissionRecord:
    return SubmissionRecord(
        gym_job_id=run_dir.name,
        gym_version="0.1.0",
        gym_commit=None,
        submitted_at="2026-11-29T00:00:01Z",
        run_dir=str(run_dir),
        cluster="big",
        executor="slurm",
        submitted_by="ada",
        benchmarks=(BenchmarkEntry(benchmark="sums", job_dir=str(run_dir / "sums"), job_id="6"),),
        labels={"team": "a"},
    )


def rebuilt(runs: Path, host: Far | None = None) -> list[tuple[str, str]]:
    found = adopt_remote.of_parent(host or Far(), str(runs), now=NOW, report=pytest.fail)
    return [
        (Path(each.run_dir).name, each.reason if isinstance(each, NotAdopted) else each.what)
        for each in found
    ]


def indexed() -> dict[str, SubmissionRecord]:
    return {each.gym_job_id: each for each in index.indexed(report=pytest.fail)}


def test_a_folder_of_another_machine_is_read_by_one_script_and_listed_with_that_machine(runs: Path):
    RunPaths(runs / LOST).resolved_config.rename(runs / "kept")
    host = Far()
    done = rebuilt(runs, host)
    assert done[0] == (ID, "indexed")
    assert done[1][0] == LOST
    assert f"far:{runs / LOST}" in done[1][1]
    assert host.asked == 1
    assert indexed() == {ID: replace(record(runs / ID), hostname="far")}
    assert rebuilt(runs)[0] == (ID, "known")


def test_a_record_that_was_lost_there_is_made_again_there_and_here(runs: Path):
    assert rebuilt(runs)[1] == (LOST, "made")
    made = indexed()[LOST]
    assert [(entry.benchmark, entry.job_id) for entry in made.benchmarks] == [("sums", "7"), ("more", "9")]
    assert (made.hostname, made.run_dir, made.submitted_by) == (
        "far",
        str(runs / LOST),
        (runs / LOST).owner(),
    )
    assert index.read_record(RunPaths(runs / LOST).record) == made
    assert dict(rebuilt(runs))[LOST] == "known"


def test_a_copy_a_damaged_record_and_a_folder_that_is_not_there_are_refused(runs: Path):
    RunPaths(runs / LOST).fetched.write_text("{}")
    RunPaths(runs / ID).record.write_text("{")
    done = dict(rebuilt(runs))
    assert f"far:{runs / ID}/gym-job.json is not a JSON document" in done[ID]
    assert done[LOST] == f"far:{runs / LOST} is a fetched copy, not a run directory."
    assert indexed() == {}
    (gone,) = adopt_remote.of_folders(Far(), ["/nowhere/at all"], now=NOW, report=pytest.fail)
    assert gone == NotAdopted("/nowhere/at all", "there is no folder /nowhere/at all on far.", gone=True)
    with pytest.raises(GymError, match="no such folder on far"):
        rebuilt(runs / "nowhere")


def test_what_is_known_on_this_machine_is_not_replaced_by_a_copy_elsewhere(runs: Path, tmp_path: Path):
    here = tmp_path / "here" / ID
    here.mkdir(parents=True)
    entry = job_paths.job_index() / f"{ID}.json"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(record(here).dumps())
    assert "which still exists; a copy is not adopted" in dict(rebuilt(runs))[ID]
    here.rmdir()
    assert dict(rebuilt(runs))[ID] == "moved"
    assert indexed()[ID].hostname == "far"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of a scheduler that say what a file holds, or nothing but an error."""
    folder = tmp_path / "slurm"
    (folder / "bin").mkdir(parents=True)
    for name in ("squeue", "sacct"):
        program = folder / "bin" / name
        program.write_text(PROGRAM.format(folder=folder, name=name))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder


def says(slurm: Path, name: str, *jobs: tuple[str, str, str]) -> None:
    (slurm / f"{name}.says").write_text(
        "".join("\x1f".join((*(part.ljust(12) for part in job), "\n")) for job in jobs)
    )


def test_run_directories_are_found_through_waiting_and_ended_jobs_and_each_is_named_once(slurm: Path):
    says(slurm, "squeue", ("7", f"{ID}/sums/1", f"/a b/{ID}/sums"), ("8", f"{ID}/sums/2", f"/a b/{ID}/sums"))
    strange = ("3", f"{ID[:-1]}c/sums/1", "/home/ada")
    foreign = ("4", "(null)", "/home/ada")
    words = f"charged to 42: {LOST}/more/again-1-2"
    says(slurm, "sacct", ("1", words, f"/c/{LOST}/more"), strange, foreign)
    run_dirs, refused = adopt_remote.forgotten(Far(), report=pytest.fail)
    assert run_dirs == [f"/a b/{ID}", f"/c/{LOST}"]
    assert [(each.run_dir, "job 3 of " in each.reason) for each in refused] == [("/home/ada", True)]


def test_a_silent_scheduler_is_an_error_and_never_nothing_there(slurm: Path):
    assert adopt_remote.forgotten(Far(), report=pytest.fail) == ([], [])
    (slurm / "squeue.silent").touch()
    with pytest.raises(GymError, match=r"a part of the scheduler on far is silent.*Unable to contact"):
        adopt_remote.forgotten(Far(), report=pytest.fail)
    says(slurm, "sacct", ("1", f"{LOST}/more/1", f"/c/{LOST}/more"))
    said: list[str] = []
    assert adopt_remote.forgotten(Far(), report=said.append) == ([f"/c/{LOST}"], [])
    assert "there may be more runs" in said[0]
    (slurm / "sacct.silent").touch()
    with pytest.raises(NotReachableError, match="neither the controller nor accounting answers"):
        adopt_remote.forgotten(Far(), report=pytest.fail)
    (slurm / "squeue.silent").unlink()
    with pytest.raises(GymError, match="nobody knows"):
        adopt_remote.forgotten(Far(), report=pytest.fail)


def test_the_made_record_is_one_json_document_that_everybody_may_read(runs: Path):
    rebuilt(runs)
    path = RunPaths(runs / LOST).record
    assert json.loads(path.read_text())["executor_metadata"] == {"adopted_at": "2027-01-15T08:00:00Z"}
    assert path.stat().st_mode & 0o777 == 0o644
