"""What the files of an output say about its rollouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import result_rows

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.index_reader import nothing_to_ask
from nemo_gym.rollouts.output.rows import encode_row
from nemo_runs.durable import disk


@pytest.mark.parametrize("rows", [2, 3])
def test_whether_anything_is_to_be_asked_is_found_by_reading_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    paths = RolloutPaths(tmp_path / "rollouts.jsonl")
    lines = [encode_row(index, 0, result_rows.result()) for index in range(rows)]
    paths.output.write_bytes(b"".join(line + b"\n" for line in lines))
    read = []
    opened = disk.regular

    def counted(path, flags):
        read.append(Path(path))
        return opened(path, flags)

    monkeypatch.setattr(disk, "regular", counted)
    assert nothing_to_ask(paths, 3, 1, 3) is (rows == 3)
    assert read == [paths.output, paths.failures, paths.answers]
