"""The wheel that the README builds holds the whole project, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import sys
from pathlib import Path
from nemo_gym.cli.main import main
import nemo_gym
assert Path(nemo_gym.__file__).is_relative_to(sys.argv.pop(1)), nemo_gym.__file__
main()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's files, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    run(
        "-m", "pip", "install", "-qq", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel)
    )
    return folder / "site"


def run(*argv: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, *argv],
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_brings_programs_benchmarks_and_the_files_that_jobs_read(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # no benchmarks of the checkout beside it
    assert {path.name for path in (installed / "bin").iterdir()} >= {"gym", "nemo"}
    site = str(installed)
    listed = run("-c", PROBE, site, "list", "benchmarks", PYTHONPATH=site)
    names = {line.split()[0] for line in listed.splitlines() if not line.startswith(" ")}
    assert names == {path.parent.name for path in ROOT.glob("benchmarks/*/config.yaml")}
    assert run("-c", PROBE, site, "docs", "verify", PYTHONPATH=site).startswith("# Certify that results")
    for pattern in (
        "src/nemo_gym/shell/*.sh",
        "src/nemo_slurm/*.tsv",
        "src/nemo_slurm/*.sh",
        "src/*/remote/*.sh",
        "src/nemo_gym/orchestration/*/remote/*.sh",
        "src/nemo_helix_server/engines/pins/*",
    ):
        names = {str(path.relative_to(ROOT / "src")) for path in ROOT.glob(pattern)}
        assert names
        assert {name for name in names if not (installed / name).exists()} == set()
