"""Looking for runs in the folders below one, however they were made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from nemo_gym.orchestration.records.index import Reporter

Found = TypeVar("Found")

DEEPEST: Final = 3
"""Levels of folders below a named one in which runs are looked for."""
MOST_FOLDERS: Final = 20_000
"""Folders that are looked into below a named one."""


def found_below(folder: Path, at: Callable[[Path], Found | None], *, report: Reporter) -> Iterator[Found]:
    """What ``at`` finds in a folder and in those below it; it is not looked for inside of what is found."""
    level, looked = [folder], 0
    for depth in range(DEEPEST + 1):
        following: list[Path] = []
        for each in level:
            looked += 1
            if looked > MOST_FOLDERS:
                report(f"{folder}: more than {MOST_FOLDERS:,} folders; runs in the others are not shown.")
                return
            found = at(each)
            if found is not None:
                yield found
            elif depth < DEEPEST:
                following += _folders_in(each)
        level = following


def _folders_in(folder: Path) -> Iterable[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []
