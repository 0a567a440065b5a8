"""Which service a data directory is of, and whether it was copied: a copy is another service.

An empty file of the directory is its anchor: another file says which inode that has, when that was last
changed, and where it lies. A directory that is moved, mounted elsewhere or given to another user stays what
it is; a copy's anchor is another file.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nemo_runs.durable.files import replace_file

RECORD = "origin.json"
ANCHOR = "origin.anchor"
_ENOUGH = 2
"""So many of time, file system and path are the same where the inode's number is not so by chance."""


@dataclass(frozen=True, slots=True)
class DataOrigin:
    """What the record says."""

    id: str
    """Of the service; a copy of its data directory gets one of its own."""
    term: int
    """Seconds since the epoch when it last took over the jobs of its original; 0: never."""
    path: str
    """Where the directory is, without links."""
    inode: int
    changed_ns: int
    """When the anchor's inode was last changed; no copy keeps that."""
    filesystem: int
    """The file system's own number, where it has one."""

    def is_place_of(self, seen: DataOrigin) -> bool:
        """Whether the anchor as it lies there now is the one of the record.

        Time alone changes with the file's mode and owner, the file system's number with the order of disks,
        the path with a move; of an unpacked copy the inode, of a linked or snapshotted one two of these.
        """
        same = (
            self.changed_ns == seen.changed_ns,
            self.filesystem == seen.filesystem,
            self.path == seen.path,
        )
        return self.inode == seen.inode and sum(same) >= _ENOUGH


def read(data_dir: Path) -> DataOrigin:
    """That of a data directory; one that has none yet, or was copied, gets one. Raises `OSError`."""
    known = _known(data_dir)
    seen = known and _seen(data_dir, known)
    if known is None or seen is None or not known.is_place_of(seen):
        return _write(data_dir, secrets.token_hex(8), 0)
    if seen != known:
        _save(data_dir, seen)
    return seen


def copied_from(data_dir: Path) -> str | None:
    """Where the directory was of which this one is a copy; `None`: it is none, as far as can be seen."""
    known = _known(data_dir)
    if known is None:
        return None
    seen = _seen(data_dir, known)
    return None if seen is not None and known.is_place_of(seen) else known.path


def take_over(data_dir: Path, now: float) -> DataOrigin:
    """Have a directory be of a service that has the jobs of its original, from ``now`` on."""
    known = _known(data_dir)
    return _write(data_dir, secrets.token_hex(8), max(known.term + 1 if known else 1, int(now)))


def _known(data_dir: Path) -> DataOrigin | None:
    try:
        value = json.loads((data_dir / RECORD).read_bytes())
        numbers = {name: int(value[name]) for name in ("term", "inode", "changed_ns", "filesystem")}
        return DataOrigin(id=str(value["id"]), path=str(value["path"]), **numbers)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _seen(data_dir: Path, known: DataOrigin) -> DataOrigin | None:
    """The record as the anchor would have it now; `None`: the anchor is gone."""
    try:
        status = os.stat(data_dir / ANCHOR)
    except FileNotFoundError:
        return None
    return replace(
        known,
        path=str(data_dir.resolve()),
        inode=status.st_ino,
        changed_ns=status.st_ctime_ns,
        filesystem=os.statvfs(data_dir).f_fsid,
    )


def _write(data_dir: Path, service_id: str, term: int) -> DataOrigin:
    """Make a new anchor, and its record."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data_dir / ANCHOR).unlink(missing_ok=True)  # one that was linked from elsewhere stays there
    replace_file(data_dir / ANCHOR, b"", mode=0o600)
    made = _seen(data_dir, DataOrigin(service_id, term, "", 0, 0, 0))
    assert made is not None, "it was just made"
    _save(data_dir, made)
    return made


def _save(data_dir: Path, origin: DataOrigin) -> None:
    replace_file(data_dir / RECORD, json.dumps(asdict(origin)).encode() + b"\n", mode=0o600)
