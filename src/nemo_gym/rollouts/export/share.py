"""A run as one file to send: the report, the rollouts as a table, and what they belong to.

A ZIP with ``report.html``, ``rollouts.csv``, and for each benchmark its manifest and coverage. Never in it:
job scripts, logs, names and addresses of machines, and rows that must stay unpublished.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.export.report_page import report_page
from nemo_gym.rollouts.export.rows import write_csv

REPORT: Final = "report.html"
ROWS: Final = "rollouts.csv"
_OF_THE_MANIFEST: Final = (
    "run_id", "created_at", "gym_version", "gym_commit", "generation_digest", "scoring_digest", "num_tasks",
    "num_repeats", "expected",
)  # fmt: skip
"""What of a manifest is shared: not the jobs, hosts and paths of its starts."""


def write_share(outputs: Sequence[ExportedOutput], path: Path) -> None:
    """Write the file. Raises `nemo_gym.errors.DataError` for a benchmark without a summary."""
    outputs = _to_send(outputs)
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        with archive.open(REPORT, "w", force_zip64=True) as report:
            for piece in report_page(outputs):
                report.write(piece.encode())
        with tempfile.TemporaryDirectory(prefix="gym-", dir=path.parent) as folder:
            rows = Path(folder) / ROWS
            write_csv(outputs, rows, formulas=False)
            archive.write(rows, ROWS)
        for output in outputs:
            archive.writestr(f"{output.benchmark}/manifest.json", _json(_shared(output)))
            archive.writestr(f"{output.benchmark}/coverage.json", _json(output.summary.to_json()))


def write_report(outputs: Sequence[ExportedOutput], path: Path) -> None:
    """Write the report alone, one HTML file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(report_page(_to_send(outputs)))


def _to_send(outputs: Sequence[ExportedOutput]) -> list[ExportedOutput]:
    return [replace(output, hides_addresses=True) for output in outputs]


def _shared(output: ExportedOutput) -> Mapping[str, Any]:
    values = output.manifest.to_json()
    model = {key: value for key, value in (output.manifest.model or {}).items() if key == "name"}
    known = {key: values[key] for key in _OF_THE_MANIFEST}
    return {**known, "model": model, "settings": output.settings()}


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace")
