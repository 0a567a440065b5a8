"""The table of `make coverage`."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "coverage_by_package.py"


def report(folder: Path, ran: int) -> Path:
    """A report of two packages: of one all 10 lines ran, of the other `ran` of 90."""
    files = {
        "src/nemo_a/x.py": {"summary": {"covered_lines": 4, "num_statements": 4}},
        "src/nemo_a/inner/y.py": {"summary": {"covered_lines": 6, "num_statements": 6}},
        "src/nemo_b/z.py": {"summary": {"covered_lines": ran, "num_statements": 90}},
    }
    path = folder / "report.json"
    path.write_text(json.dumps({"files": files}))
    return path


@pytest.mark.parametrize(
    ("ran", "share", "least", "status"),
    [(90, "100.0%", [], 0), (0, "10.0%", [], 1), (80, "90.0%", ["90"], 0), (79, "89.0%", ["90"], 1)],
)
def test_each_package_is_shown_and_the_share_of_all_decides(
    ran: int,
    share: str,
    least: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(report(tmp_path, ran)), *least])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows[0] == ["nemo_a", "10", "10", "100.0%"]
    assert [row[0] for row in rows] == ["nemo_a", "nemo_b", "all"]
    assert rows[-1] == ["all", str(10 + ran), "100", share]
    assert end.value.code == status
