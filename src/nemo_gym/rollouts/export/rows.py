"""Rollouts as rows of a table: Parquet and CSV, one row a rollout."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.errors import GymError
from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.reading.recorded import RecordedRollout
from nemo_gym.text_table import no_formula

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT = (
    "run", "benchmark", "model", "outcome", "expected", "extracted", "reason", "prompt", "thoughts", "answer",
    "end", "failures", "verdict", "row",
)  # fmt: skip
_WHOLE = ("task", "repeat", "prompt_tokens", "completion_tokens")
_NUMBER = ("reward", "latency_ms")
COLUMNS = ("run", "benchmark", "model", "task", "repeat", *(name for name in _TEXT if name not in {
    "run", "benchmark", "model",
}), *_NUMBER, "prompt_tokens", "completion_tokens")  # fmt: skip
"""Columns in their order; ``prompt``, ``failures``, ``verdict`` and ``row`` are JSON."""
_TOGETHER = 1000


def table_rows(outputs: Iterable[ExportedOutput]) -> Iterator[dict[str, Any]]:
    """One mapping from column to value a rollout."""
    for output in outputs:
        for rollout in output.rollouts():
            yield _row(output, rollout)


def arrow_schema() -> pa.Schema:
    """The columns and their kinds. Raises `GymError` without the package pyarrow."""
    try:
        import pyarrow as pa
    except ImportError:
        raise GymError("Parquet and Arrow need the package pyarrow: `pip install pyarrow`.") from None
    kinds = {name: pa.int64() for name in _WHOLE} | {name: pa.float64() for name in _NUMBER}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])


def write_parquet(outputs: Iterable[ExportedOutput], path: Path) -> int:
    """Write one Parquet file; the number of rows. Raises `GymError` without the package pyarrow."""
    schema = arrow_schema()
    import pyarrow as pa
    from pyarrow import parquet

    count, rows = 0, table_rows(outputs)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(rows, _TOGETHER)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))
            count += len(some)
    return count


def write_csv(outputs: Iterable[ExportedOutput], path: Path, *, formulas: bool = True) -> int:
    """Write one CSV file; the number of rows.

    Without ``formulas`` a text that a spreadsheet would run gets an apostrophe before it.
    """
    count = 0
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in table_rows(outputs):
            cells = {name: "" if value is None else value for name, value in row.items()}
            if not formulas:
                cells |= {name: no_formula(cell) for name, cell in cells.items() if isinstance(cell, str)}
            writer.writerow(cells)
            count += 1
    return count


def _row(output: ExportedOutput, rollout: RecordedRollout) -> dict[str, Any]:
    perf = rollout.perf
    failures = [failure.failure_class for failure in rollout.failures]
    return {
        "run": output.run,
        "benchmark": output.benchmark,
        "model": output.model,
        "task": rollout.task,
        "repeat": rollout.repeat,
        "outcome": rollout.outcome,
        "expected": rollout.expected,
        "extracted": rollout.extracted,
        "reason": rollout.reason,
        "prompt": _json(rollout.prompt),
        "thoughts": rollout.thoughts,
        "answer": rollout.answer,
        "end": rollout.end,
        "failures": _json(failures),
        "verdict": _json(rollout.verdict),
        "row": _json(rollout.row),
        "reward": rollout.reward,
        "latency_ms": _number(perf.get("total_latency_ms")),
        "prompt_tokens": _whole(perf.get("prompt_tokens")),
        "completion_tokens": _whole(perf.get("completion_tokens")),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None
