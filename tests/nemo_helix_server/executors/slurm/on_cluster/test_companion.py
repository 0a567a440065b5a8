"""What runs beside the command of an allocation ends with the allocation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_helix_server.executors.slurm.on_cluster import companion, folders
from nemo_trainer.contract.allocation import FILE, PREEMPTION, Allocation, read_allocation

ARGV = [sys.executable, "-P", "-m", companion.__name__]


def stub(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Put programs that print something in front of all others."""
    for name, script in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1796072092    N/A", (1796072092.0, "", None, None)),
        ("1796068514    1796068494", (1796068514.0, PREEMPTION, 1796068494.0, 20.0)),
        ("1796068514    0", (1796068514.0, "", None, None)),
        ("1796068514", (1796068514.0, "", None, None)),
        ("NONE N/A", None),  # no time limit
        ("Welcome to login2\n1796068514 1796068494", (1796068514.0, PREEMPTION, 1796068494.0, 20.0)),
        ("3 jobs wait\n1796072092    N/A", (1796072092.0, "", None, None)),
        ("NONE 1796068494", (1796068534.0, PREEMPTION, 1796068494.0, 40.0)),
        ("N/A N/A", None),
        ("", None),
        ("slurm_load_jobs error: Invalid job id specified", None),
    ],
)
def test_end_and_notice_are_what_the_controller_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, expected: object
) -> None:
    stub(tmp_path, monkeypatch, squeue=f"echo '{printed}'")
    found = companion.look("7", grace=40.0)
    assert (found and (found.ends_at, found.kind, found.noticed_at, found.grace_seconds)) == expected
    if found is not None:
        assert found.notice == ("it is preempted" if found.kind else "")


@pytest.mark.parametrize(
    ("partition", "qos", "expected"),
    [
        ("PartitionName=low GraceTime=120 Hidden=NO", "", 120.0),
        ("PartitionName=low GraceTime=0 Hidden=NO", "00:02:30", 150.0),
        ("PartitionName=low GraceTime=0 Hidden=NO", "00:00:00", 0.0),
        ("error: no such partition", "nothing", 0.0),
    ],
)
def test_a_grace_time_is_the_partitions_or_else_that_of_the_quality_of_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition: str, qos: str, expected: float
) -> None:
    stub(tmp_path, monkeypatch, scontrol=f"echo '{partition}'", sacctmgr=f"echo '{qos}'")
    named = {"SLURM_JOB_PARTITION": "low", "SLURM_JOB_QOS": "normal"}
    assert companion.grace_seconds(named) == expected
    stub(tmp_path, monkeypatch, scontrol="exit 1", sacctmgr="exit 1")
    assert companion.grace_seconds(named) == 0.0


@pytest.mark.parametrize(
    ("left", "grace", "seconds"),
    [
        (None, 0, 60),
        (7200, 0, 60),
        (200, 0, 10),
        (7200, 120, 30),
        (7200, 4, 5),
        (7200, 3600, 60),
        (9, 120, 10),
    ],
)
def test_a_look_comes_often_enough_to_find_a_notice_in_its_grace(
    left: float | None, grace: float, seconds: float
) -> None:
    known = None if left is None else Allocation(ends_at=1000.0 + left, by="Slurm", at=1000.0)
    assert companion.interval(known, grace, 1000.0) == seconds


def test_what_is_found_is_written_once_and_again_when_a_notice_comes_without_another_end(
    tmp_path: Path,
) -> None:
    first = Allocation(ends_at=9.0, by="Slurm", at=1.0)
    again = Allocation(ends_at=9.0, by="Slurm", at=2.0)
    warned = Allocation(
        ends_at=9.0, notice="it is preempted", kind=PREEMPTION, noticed_at=3.0, by="S", at=3.0
    )
    known = companion.note(tmp_path, first, None)
    assert known == first == read_allocation(tmp_path / FILE)
    assert companion.note(tmp_path, again, known) == first
    assert companion.note(tmp_path, None, known) == first
    assert companion.note(tmp_path, warned, known) == warned == read_allocation(tmp_path / FILE)
    assert companion.note(tmp_path / "gone", first, warned) == warned


@pytest.mark.slow
def test_it_does_not_outlive_the_program_that_has_started_it(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    squeue = programs / "squeue"
    squeue.write_text("#!/bin/sh\necho 99999999999\n")
    squeue.chmod(0o755)
    order = {"token": "task-1", "trainer": str(tmp_path / "trainer"), "chain": None}
    (tmp_path / folders.ORDER).write_text(json.dumps(order))
    environ = {**os.environ, "SLURM_JOB_ID": "1", "PATH": f"{programs}:{os.environ['PATH']}"}
    # its output is a pipe that closes when it has ended, and the shell ends once it has begun
    script = '"$@" "$$" & until [ -e allocation.json ]; do sleep 0.05; done; echo begun'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *ARGV, str(tmp_path), "0"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "begun\n"
    assert done.stderr == ""
