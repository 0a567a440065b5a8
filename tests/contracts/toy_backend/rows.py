"""The rows that are trained on."""

from __future__ import annotations

import json
from pathlib import Path


def words(dataset: Path) -> list[list[str]]:
    """The words of each row of a file of JSON Lines, or of the only one of a folder."""
    file = next(iter(sorted(dataset.glob("*.jsonl")))) if dataset.is_dir() else dataset
    lines = file.read_text(encoding="utf-8").splitlines()
    return [str(json.loads(line)["text"]).split() for line in lines]
