"""What other installed packages bring by entry point, found without importing anything of them.

The files are read directly, since importing ``importlib.metadata`` takes longer than everything else that
``nemo --help`` does.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class InstalledEntry(NamedTuple):
    """One entry point, not imported yet."""

    name: str
    target: str
    """``module:attribute``."""
    distribution: str
    """Name of the distribution that brings it, as its metadata folder has it."""


def installed(group: str, folders: Iterable[str] | None = None) -> dict[str, InstalledEntry]:
    """The entries of a group on ``folders`` (default: ``sys.path``) by name; the first folder wins."""
    found: dict[str, InstalledEntry] = {}
    for folder in sys.path if folders is None else folders:
        for entry in _entries_in(folder or ".", group):
            found.setdefault(entry.name, entry)
    return dict(sorted(found.items()))


def load(target: str) -> Any:
    """What ``module:attribute`` names; what its import raises goes through."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entries_in(folder: str, group: str) -> Iterator[InstalledEntry]:
    # By name and not as paths: importing `pathlib` takes as long as all of this.
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
    except OSError:
        return  # a zip file or a folder that is not there: nothing that can be installed in the usual way
    for name in names:
        try:
            with open(f"{folder}/{name}/entry_points.txt", encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if group in text:
            distribution = name.partition("-")[0].replace("_", "-")
            yield from (InstalledEntry(entry, target, distribution) for entry, target in _lines(text, group))


def _lines(text: str, group: str) -> Iterator[tuple[str, str]]:
    """The ``name = module:attribute`` lines of the group's section."""
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            yield name.strip(), target.partition("[")[0].strip()
