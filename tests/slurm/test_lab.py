"""What `scripts/slurm/up.sh` says when it cannot bring a cluster up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

UP = Path(__file__).resolve().parents[2] / "scripts/slurm/up.sh"
pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="needs another user: root's")]


def test_a_folder_that_the_database_may_not_enter_is_told_with_what_to_do(slurm, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    environ = {**os.environ, "SLURM_LAB": str(closed / "lab"), "SLURM_LAB_PORT": "39000"}
    done = subprocess.run([str(UP)], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"mysql, may not enter {closed}/lab: chmod a+x the folders above it" in done.stderr
    assert not list((closed / "lab" / "run").glob("*.pid"))
