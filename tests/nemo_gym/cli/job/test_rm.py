"""`gym job rm` and `gym job prune`: what is shown, what is asked, and what stays."""

import json
import shutil
from pathlib import Path

import pytest
from tests.nemo_gym.orchestration.results.test_scores import record

from nemo_gym.cli.main import _status
from nemo_gym.job_paths import RunPaths, index_entry


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A submission without a benchmark that was queued: nothing of it can be alive."""
    folder = tmp_path / "gym-job-20261129T000000Z-00000a"
    folder.mkdir()
    made = record(folder)
    RunPaths(folder).record.write_bytes(made.dumps())
    index_entry(made.gym_job_id).parent.mkdir(parents=True, exist_ok=True)
    index_entry(made.gym_job_id).write_bytes(made.dumps())
    return folder


@pytest.mark.parametrize("words", [["rm", "latest"], ["prune", "--keep", "0"]])
def test_without_a_terminal_it_is_shown_and_nothing_goes(
    run_dir: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert _status(["job", *words]) == 2
    said = capsys.readouterr()
    assert run_dir.name in said.out
    assert f"{(run_dir / 'gym-job.json').stat().st_size} bytes" in said.out
    assert "nothing was deleted: this asks first" in said.err
    assert run_dir.is_dir()


@pytest.mark.parametrize("words", [["rm", "latest"], ["prune", "--label", "team=a"]])
def test_a_dry_run_ends_well_and_yes_deletes(
    run_dir: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert _status(["job", *words, "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert ([one["gym_job_id"] for one in found["removable"]], found["deleted"]) == ([run_dir.name], [])
    assert found["removable"][0]["bytes"] == (run_dir / "gym-job.json").stat().st_size
    assert run_dir.is_dir()
    assert _status(["job", *words, "--yes"]) == 0
    assert capsys.readouterr().out.endswith(f"deleted {run_dir.name}\n")
    assert not run_dir.exists()


def test_prune_wants_to_know_which_and_leaves_what_is_new_or_kept(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["job", "prune"]) == 2
    assert "say which runs go" in capsys.readouterr().err
    for words in (["--keep", "1"], ["--older-than", "10000-00"], ["--label", "team=b"]):
        assert _status(["job", "prune", *words, "--yes"]) == 0
        assert capsys.readouterr().err == "gym: nothing to delete.\n"
    assert run_dir.is_dir()


def test_a_copy_is_never_taken_for_the_original(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run_dir, copy)
    assert _status(["job", "rm", str(copy), "--yes"]) == 5
    assert f"{copy} is a copy of {run_dir.name}" in capsys.readouterr().err
    assert run_dir.is_dir()
    assert copy.is_dir()
    assert _status(["job", "rm", str(run_dir), "--yes"]) == 0
    assert not run_dir.exists()
