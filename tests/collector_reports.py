"""What a collector said at its end to the chain that it runs in, as tests read it."""

from __future__ import annotations

from pathlib import Path


def read(path: Path) -> dict[str, str]:
    """The values of a file ``collected`` whose job asked for lines, by their keys."""
    words = (line.partition(" ") for line in path.read_text().splitlines())
    return {key: value for key, _, value in words}
