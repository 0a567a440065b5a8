"""`gym job export` from its arguments to its files."""

import json
from pathlib import Path

import pytest
from tests.nemo_gym.rollouts.export.outputs import exported

from nemo_gym.cli.main import _status


def test_a_folder_of_results_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported(tmp_path / "out")
    words = ["job", "export", str(tmp_path / "out"), "--to", "csv", "-o", str(tmp_path / "x.csv")]
    assert _status(words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'x.csv'}\n"
    assert len((tmp_path / "x.csv").read_text().splitlines()) > 6
    assert _status(words) == 1
    assert "is there already" in capsys.readouterr().err


def test_what_stays_unpublished_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported(tmp_path / "gpqa")
    words = ["job", "export", str(tmp_path / "gpqa"), "--to", "inspect", "-o", str(tmp_path / "x"), "--json"]
    assert _status(words) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["path"] == str(tmp_path / "x")
    assert "rows of gpqa must stay unpublished" in said.err
