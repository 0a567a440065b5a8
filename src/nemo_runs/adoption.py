"""Taking over the rows of a writer that may still be alive somewhere: two writers are kept apart by inode."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_runs import disk, rows


@dataclass(frozen=True, slots=True)
class Adopted:
    """What became of the rows of a file that was taken over."""

    kept: int
    """Rows in the new file."""
    damaged: list[tuple[int, bytes]]
    """Line number (from 1) and bytes of each row that was set aside."""
    superseded: Path | None
    """The old file, or `None` when there was none."""


def adopt_rows(path: Path, valid: Callable[[bytes], bool], *, label: str) -> Adopted:
    """Take the rows of ``path`` over into a new inode; whoever still writes to the old one is fenced off.

    Rows for which ``valid`` is false, and a torn tail, go to ``<name>.damaged-<label>``; the old file stays
    as ``<name>.superseded-<label>`` (``…-2``, ``…-3`` when a name is taken). ``valid`` is asked once a row,
    in order. A crash at any moment leaves ``path`` whole, old or new; nothing is ever deleted.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return Adopted(0, [], None)
    with disk.temporary_beside(path) as temporary:
        kept, damaged = _copy_valid(path, valid, temporary, mode)
        if damaged:
            aside = next(name for name in _names(path, f"damaged-{label}") if disk.claim(name))
            disk.write_new(aside, b"".join(row + b"\n" for _, row in damaged), mode)
        superseded = _keep_old(path, label)
        disk.sync_folder(path.parent)
        temporary.replace(path)
    disk.sync_folder(path.parent)
    return Adopted(kept, damaged, superseded)


def _names(path: Path, suffix: str) -> Iterator[Path]:
    """``<name>.<suffix>``, ``<name>.<suffix>-2``, …"""
    yield path.with_name(f"{path.name}.{suffix}")
    yield from (path.with_name(f"{path.name}.{suffix}-{count}") for count in itertools.count(2))


def _copy_valid(
    path: Path, valid: Callable[[bytes], bool], target: Path, mode: int
) -> tuple[int, list[tuple[int, bytes]]]:
    """Copy the valid rows of ``path`` to ``target``, durably; return their number and the other rows."""
    kept = 0
    damaged: list[tuple[int, bytes]] = []
    with disk.full_disk_named(path), target.open("xb", buffering=disk.CHUNK) as file:
        for number, (row, whole) in enumerate(rows.read_pieces(path), start=1):
            if whole and valid(row):
                file.write(row + b"\n")
                kept += 1
            else:
                damaged.append((number, row))
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    return kept, damaged


def _keep_old(path: Path, label: str) -> Path:
    """Give the old file a second name; a copy stands in for it where there are no hard links."""
    for kept in _names(path, f"superseded-{label}"):
        try:
            os.link(path, kept)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in disk.NO_HARD_LINKS:
                raise
            if not disk.claim(kept):
                continue
            _copy(path, kept)
        return kept
    raise AssertionError("names never run out")


def _copy(path: Path, target: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.copy_range(descriptor, 0, os.fstat(descriptor).st_size, target)
    finally:
        os.close(descriptor)
