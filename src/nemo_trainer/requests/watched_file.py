"""A small file that somebody else replaces: it is read when it has changed, and a look costs one ``stat``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Content = TypeVar("Content")


class WatchedFile:
    """One file that need not exist yet."""

    def __init__(self, path: Path | None) -> None:
        """``path``: `None` = there is none, and nothing is ever found."""
        self._path = path
        self._signature: tuple[int, int, int] | None = None

    def look(self, read: Callable[[Path], Content | None], *, always: bool = False) -> Content | None:
        """What ``read`` makes of the file where it has changed since it was last understood, else `None`.

        ``read`` gives `None` for a file that its writer has torn; it is then read at the next look too.
        ``always`` reads a file that looks the same: two writes within one tick of its clock may do so.
        """
        if self._path is None:
            return None
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        signature = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if signature == self._signature and not always:
            return None
        found = read(self._path)
        if found is not None:
            self._signature = signature
        return found
