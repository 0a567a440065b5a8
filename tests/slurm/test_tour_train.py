"""What `make tour-train` does: a training loses its place twice, is paused, and ends with the same bytes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.slurm.lab import RealSlurm

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]

ROOT = Path(__file__).resolve().parents[2]


def test_the_tour_shows_three_interruptions_and_the_same_weights(slurm: RealSlurm) -> None:
    folder = slurm.folder / "tour"
    done = subprocess.run(
        [ROOT / "scripts" / "tour-train.sh"],
        capture_output=True,
        text=True,
        env={**os.environ, "TOUR_FOLDER": str(folder)},
        timeout=420,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ends = re.findall(r"^\d+ +([A-Z_]+) +n\d ", done.stdout, re.MULTILINE)
    assert ends == ["TIMEOUT", "NODE_FAIL", "FAILED", "COMPLETED"]  # a pause exits with 75
    assert re.search(r"^4 allocations, \d+ node-seconds$", done.stdout, re.MULTILINE), done.stdout[-4000:]
    billed = re.findall(
        r"^training .* (interrupted|paused|completed)(?:, [^:]+)?: job \d+", done.stdout, re.MULTILINE
    )
    assert billed == ["interrupted", "interrupted", "paused", "completed"]
    assert re.search(r"^4 allocations ran ", done.stdout, re.MULTILINE)
    assert re.search(r"asked to pause .*asked to resume ", done.stdout, re.DOTALL)
    assert re.search(r"^The same bytes ", done.stdout, re.MULTILINE)
    assert (folder / "long.json").read_bytes() == (folder / "untouched.json").read_bytes()
    left = subprocess.run(
        ["squeue", "-h", "--me", "-o", "%Z"], capture_output=True, text=True, check=True
    ).stdout
    assert str(folder) not in left
