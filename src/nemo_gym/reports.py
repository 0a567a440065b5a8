"""Where sentences go that a part of the program says on the way."""

from __future__ import annotations

import sys


def to_stderr(sentence: str) -> None:
    """Say one sentence on standard error."""
    print(f"gym: {sentence}", file=sys.stderr)
