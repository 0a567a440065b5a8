"""Runs for W&B and MLflow, written by those libraries themselves in a process of their own."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from nemo_gym.errors import GymError
from nemo_gym.rollouts.export import tracker_process
from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.export.rows import COLUMNS, table_rows

Tracker = Literal["wandb", "mlflow"]

_SAID = 2000


def tracker_python(tracker: Tracker, python: Path | None) -> str:
    """The interpreter that has the tracker's library: the one that is named, else this one.

    Raises `GymError` when it has not.
    """
    if python is None:
        if importlib.util.find_spec(tracker) is None:
            raise GymError(
                f"the package {tracker} is not installed beside gym: install it, or name with --python an "
                "interpreter that has it."
            )
        return sys.executable
    probe = [
        str(python),
        "-c",
        f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({tracker!r}))",
    ]
    try:
        found = subprocess.run(probe, capture_output=True, check=False, timeout=60).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GymError(f"--python {python} cannot be started ({error}).") from None
    if found:
        raise GymError(f"--python {python} has no package {tracker}.")
    return str(python)


def write_tracker(tracker: Tracker, outputs: Sequence[ExportedOutput], folder: Path, *, python: str) -> None:
    """Write one run with all outputs into an empty folder.

    Raises `GymError` with the library's own words when it fails.
    """
    head = {
        "kind": tracker,
        "folder": str(folder),
        "project": "gym",
        "name": outputs[0].run,
        "config": _config(outputs),
        "metrics": _metrics(outputs),
        "tags": [f"{key}={value}"[:64] for key, value in outputs[0].labels.items()],
        "labels": dict(outputs[0].labels),
        "columns": list(COLUMNS),
        "started_at": min(_seconds(output.manifest.created_at) for output in outputs),
        "ended_at": max(output.ended_at for output in outputs),
    }
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "MLFLOW_"))
    }
    with subprocess.Popen(
        [python, tracker_process.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environ,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        _, said = process.communicate("".join(_lines(head, outputs)))
    if process.returncode:
        raise GymError(f"{tracker} could not write the run: {said.strip()[-_SAID:] or process.returncode}.")


def _lines(head: dict[str, Any], outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    yield f"{json.dumps(head)}\n"
    for row in table_rows(outputs):
        yield f"{json.dumps([row[name] for name in COLUMNS])}\n"
    yield f"{json.dumps(tracker_process.END)}\n"


def _seconds(created_at: str) -> float:
    """UTC seconds of a manifest's date."""
    return datetime.fromisoformat(created_at).timestamp()


def _config(outputs: Sequence[ExportedOutput]) -> dict[str, Any]:
    """Settings: of one benchmark by their own names, of several below the benchmark's."""
    found: dict[str, Any] = {}
    for output in outputs:
        prefix = f"{output.benchmark}." if len(outputs) > 1 else ""
        found |= {f"{prefix}{name}": value for name, value in output.settings().items()}
    return found


def _metrics(outputs: Sequence[ExportedOutput]) -> dict[str, float]:
    found: dict[str, float] = {}
    for output in outputs:
        summary = output.summary
        numbers: dict[str, float] = {
            "coverage": summary.coverage.measured / max(1, summary.coverage.expected)
        }
        if summary.score is not None:
            score = summary.score
            numbers |= {"score": score.mean, "score_low": score.low, "score_high": score.high}
        numbers |= {f"tokens_{name}": value for name, value in summary.tokens.items()}
        found |= {
            f"{output.benchmark}/{name}": value for name, value in numbers.items() if math.isfinite(value)
        }
    return found
