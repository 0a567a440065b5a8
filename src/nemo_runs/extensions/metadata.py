"""Entry points as the metadata of installed packages has them, read without an import of anything of theirs.

The files are read directly, since importing ``importlib.metadata`` takes longer than everything else that
``nemo --help`` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple


class InstalledEntry(NamedTuple):
    """One entry point, not imported yet."""

    name: str
    target: str
    """``module:attribute``."""
    distribution: str
    """Name of the distribution that brings it, as its metadata folder has it."""


def entries_in(folder: str, group: str) -> Iterator[InstalledEntry]:
    """The entries of a group that packages in a folder of ``sys.path``, or in a zip file, bring."""
    # By name and not as paths: importing `pathlib` takes as long as all of this.
    try:
        found = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
    except NotADirectoryError:
        yield from _entries_in_archive(folder, group)
        return
    except OSError:
        return
    for name in found:
        try:
            with open(f"{folder}/{name}/entry_points.txt", encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if group in text:
            distribution = name.rpartition(".")[0].partition("-")[0].replace("_", "-")
            yield from (InstalledEntry(entry, target, distribution) for entry, target in _lines(text, group))


def _entries_in_archive(path: str, group: str) -> Iterator[InstalledEntry]:
    """The entries of a zip file that is on the path."""
    from importlib.metadata import distributions  # noqa: PLC0415 - slow, and rarely needed

    for distribution in distributions(path=[path]):
        text = distribution.read_text("entry_points.txt") or ""
        name = str(distribution.name).replace("_", "-")
        yield from (InstalledEntry(entry, target, name) for entry, target in _lines(text, group))


def _lines(text: str, group: str) -> Iterator[tuple[str, str]]:
    """The ``name = module:attribute`` lines of the group's section."""
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            if name.strip() and target.strip():
                yield name.strip(), target.partition("[")[0].strip()
