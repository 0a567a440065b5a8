"""Files that arrive on the cluster: whole, with the right digest, and large ones once for all jobs.

A file that several jobs have is kept in a cache below the root, by its digest, and jobs have links to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.environment_digest import content_digest
from nemo_helix_server.executors.slurm.on_cluster import folders, wire
from nemo_runs.durable.files import replace_file

_LEDGER = ".staged.json"
_CACHED_AT = 1_000_000_000 * 1_000_000_000
"""Time of change of every file of the cache, in nanoseconds; a process that writes to one changes it."""
_READABLE = 0o555


def missing(request: Mapping[str, Any]) -> dict[str, Any]:
    """Of files with their digests: those that are not there, and how much of each has arrived.

    What another job has brought is linked, not sent again.
    """
    folder = Path(request["folder"])
    known = read_ledger(folder / _LEDGER)
    found = []
    for path, size, sha, shared in request["files"]:
        target = folder / path
        status = wire.status_of(target)
        if status is not None and known.get(path) == [size, status.st_mtime_ns, sha]:
            continue
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shared and _from_cache(_cached(request, sha), size, target):
            known[path] = [size, _CACHED_AT, sha]
            continue
        begun = wire.status_of(_part(target, sha))
        found.append([path, min(begun.st_size, size) if begun else 0])
    _write_ledger(folder, known)
    return {"missing": found}


def settle(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the digests of what has arrived, and give it its name; what is not right is removed."""
    folder = Path(request["folder"])
    known = read_ledger(folder / _LEDGER)
    for path, size, sha, mode, shared in request["files"]:
        target, arrived = folder / path, _part(folder / path, sha)
        status = wire.status_of(arrived)
        if status is None or status.st_size != size or content_digest(arrived) != sha:
            arrived.unlink(missing_ok=True)
            continue
        arrived.chmod(mode & _READABLE if shared else mode)
        if shared:
            os.utime(arrived, ns=(_CACHED_AT, _CACHED_AT))
            _into_cache(arrived, _cached(request, sha))
        arrived.replace(target)
        known[path] = [size, target.stat().st_mtime_ns, sha]
    _write_ledger(folder, known)
    return {}


def _cached(request: Mapping[str, Any], sha: str) -> Path:
    return Path(request["cache"], sha[:2], sha)


def _from_cache(blob: Path, size: int, target: Path) -> bool:
    """Give a file that is in the cache its name in a job; false when it has to be sent."""
    status = wire.status_of(blob)
    if status is None:
        return False
    if (status.st_size, status.st_mtime_ns) != (size, _CACHED_AT):
        blob.unlink(missing_ok=True)  # a job that has it has written to it
        return False
    temporary = target.with_name(f".{target.name}.link-{os.getpid()}")
    try:
        os.link(blob, temporary)
        temporary.replace(target)
    except OSError:
        return False
    finally:
        temporary.unlink(missing_ok=True)  # a rename onto another link of the same file leaves both
    return True


def _into_cache(arrived: Path, blob: Path) -> None:
    """Keep a file whose digest was found right; where links are not possible, nothing is kept."""
    with contextlib.suppress(OSError):
        blob.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.link(arrived, blob)


def sweep(root: Path, unused_seconds: float) -> None:
    """Remove what no job has had a link to for so long."""
    oldest = time.time() - unused_seconds
    for blob in (root / "cache").glob("*/*"):
        status = wire.status_of(blob)
        # the time of the last link or unlink is that of the inode's last change
        if status is not None and status.st_nlink == 1 and status.st_ctime < oldest:
            blob.unlink(missing_ok=True)


def _part(target: Path, sha: str) -> Path:
    """Where a file grows until it is whole."""
    return target.with_name(folders.part_name(target.name, sha))


def read_ledger(path: Path) -> dict[str, Any]:
    """What was known of files, by their paths; empty when it cannot be read, so that they are read again."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_ledger(folder: Path, known: Mapping[str, Any]) -> None:
    replace_file(folder / _LEDGER, json.dumps(known).encode(), mode=0o600, durable=False)
