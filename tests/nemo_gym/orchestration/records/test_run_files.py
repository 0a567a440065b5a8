"""Small files of many benchmarks, read by one script."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.orchestration.records.run_files import HostRunFiles
from nemo_slurm.hosts import LocalHost


def test_more_folders_than_one_call_takes_are_read_in_one_look(tmp_path: Path) -> None:
    folders = [tmp_path / f"run {number}" / "it's $x" for number in range(502)]
    for folder in (folders[0], folders[499], folders[500], folders[501]):
        (folder / "links" / "7.0").mkdir(parents=True)
        (folder / "links" / "7.0" / "started").write_text(f"{folder.parent.name}\n")
        (folder / "run.yaml").write_text("a: 1\n")
    look = HostRunFiles(LocalHost()).look(folders)
    assert {folder: files["links/7.0/started"] for folder, files in look.folders.items()} == {
        folder: f"{folder.parent.name}\n" for folder in (folders[0], folders[499], folders[500], folders[501])
    }
    assert {len(digests) for digests in look.digests.values()} == {1}


def test_a_look_at_nothing_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".gym_cancelled").write_text("x")
    look = HostRunFiles(LocalHost()).look([])
    assert (look.folders, look.submissions) == ({}, {})
