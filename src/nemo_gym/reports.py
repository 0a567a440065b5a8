"""Where sentences go that a part of the program says on the way."""

from __future__ import annotations

import sys

from nemo_runs import streams


def to_stderr(sentence: str) -> None:
    """Say one sentence on standard error."""
    print(f"gym: {streams.harmless(sentence)}", file=sys.stderr)
