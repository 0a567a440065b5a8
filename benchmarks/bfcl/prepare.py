"""Makes the rows of the Berkeley Function Calling Leaderboard from the package bfcl-eval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nemo_gym.bfcl.rows import write_rows

VERSION = "2026.3.23"
"""Of bfcl-eval, whose checkers grade: rows of one version are not graded by another."""


def prepare(output: Path, categories: Sequence[str] | None = None) -> None:
    """Write one row a task, category by category; ``categories`` are by default all that are here.

    The package is installed into an environment of its own first, with hashes. `nemo_gym.errors.GymError` for
    categories that are not here, and where the package cannot be had.
    """
    write_rows(output, categories, version=VERSION)
