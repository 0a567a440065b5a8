"""Taking over the rows of a writer that may still be alive somewhere: two writers are kept apart by inode."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_runs.durable import disk, rows

Sort = Callable[[bytes], tuple[Sequence[bytes], bytes]]
"""Says of one line which rows in it are to be kept, and what of it is to be set aside (``b""``: nothing)."""


@dataclass(frozen=True, slots=True)
class AdoptedRows:
    """What became of the rows of a file that was taken over."""

    kept: int
    """Rows in the new file."""
    damaged: list[tuple[int, bytes]]
    """Line number (from 1) and bytes of what was set aside."""
    torn: int
    """Bytes without a newline at the file's end of which something was set aside."""
    superseded: Path | None
    """The old file, or `None` when there was none or it was not kept."""


def adopt_rows(path: Path, sort: Sort, *, label: str, keep_old: bool = True) -> AdoptedRows:
    """Take the rows of ``path`` over into a new inode; who still writes to the old one is fenced off.

    What ``sort`` sets aside goes to ``<name>.damaged-<label>``; the old file stays as
    ``<name>.superseded-<label>`` (``…-2``, ``…-3`` when a name is taken) unless ``keep_old`` is false.
    ``sort`` is asked once a line, in order, and for a tail without a newline. A crash at any moment leaves
    ``path`` whole, old or new.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return AdoptedRows(0, [], 0, None)
    with disk.temporary_beside(path) as temporary:
        kept, damaged, torn = _copy_sorted(path, sort, temporary, mode)
        if damaged:
            aside = next(name for name in _names(path, f"damaged-{label}") if disk.claim(name))
            disk.write_new(aside, b"".join(row + b"\n" for _, row in damaged), mode)
        superseded = _keep_old(path, label) if keep_old else None
        disk.sync_folder(path.parent)
        temporary.replace(path)
    disk.sync_folder(path.parent)
    return AdoptedRows(kept, damaged, torn, superseded)


def _names(path: Path, suffix: str) -> Iterator[Path]:
    """``<name>.<suffix>``, ``<name>.<suffix>-2``, …"""
    yield path.with_name(f"{path.name}.{suffix}")
    yield from (path.with_name(f"{path.name}.{suffix}-{count}") for count in itertools.count(2))


def _copy_sorted(path: Path, sort: Sort, target: Path, mode: int) -> tuple[int, list[tuple[int, bytes]], int]:
    """Copy the rows to keep to ``target``, durably; their number, the other pieces, and how much was torn."""
    kept = torn = 0
    damaged: list[tuple[int, bytes]] = []
    with disk.full_disk_named(path), target.open("xb", buffering=disk.CHUNK) as file:
        for number, (line, whole) in enumerate(rows.read_pieces(path), start=1):
            wanted, rest = sort(line)
            for row in wanted:
                file.write(row + b"\n")
            kept += len(wanted)
            if rest:
                damaged.append((number, rest))
                torn = 0 if whole else len(rest)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    return kept, damaged, torn


def _keep_old(path: Path, label: str) -> Path:
    """Give the old file a second name; a copy replaces it where there are no hard links."""
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
