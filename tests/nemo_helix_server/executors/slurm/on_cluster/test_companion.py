"""What runs beside the command of an allocation ends with the allocation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_helix_server.executors.slurm.on_cluster import companion, folders

ARGV = [sys.executable, "-P", "-m", companion.__name__]


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
