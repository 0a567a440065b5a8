"""What the database records, written into the jobs' directories too: a job can be read from its directory.

The transitions are an outbox: each is appended to the file of its job, once, in order, and the records of
what it changed are replaced. The disk is not waited for, which small jobs would notice; instead, when the
machine has booted since, the last hour is written again, as far as it is not there. So a crash repeats some
of this and loses none of it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.jobs.model import TransitionRow
from nemo_helix_server.storage.job_folders import JobDirectory, JobStorage
from nemo_helix_server.store.queries import TransitionQuery
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import SECOND
from nemo_runs.durable import disk, rows
from nemo_runs.processes import process_table

_BATCH = 500
_CURSOR = "mirror.json"
_AGAIN = 3600 * SECOND
"""What the kernel has surely brought to the disk by itself is older than this."""
_CHANGED_BY_OTHERS = frozenset(
    {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM}
)
"""What says that somebody changed a directory; a full disk, and a broken one, say something else."""
_LOG = logging.getLogger(__name__)


class RecordMirror:
    """Follows the transitions of a store; `run` is for one thread at a time."""

    def __init__(self, store: JobStore, storage: JobStorage) -> None:
        self._store = store
        self._storage = storage
        self._cursor = storage.data_dir / _CURSOR
        self._done: int | None = None

    def run(self) -> bool:
        """Write down a batch of what has happened; whether there may be more."""
        with self._store.read() as unit:
            if self._done is None:
                # a database that was lost and begun again, or put back, has fewer events
                self._done = min(_begin(self._cursor, unit), unit.transitions.last())
            batch = unit.transitions.since(TransitionQuery(after=self._done, limit=_BATCH))
            records = {
                job_id: _records(unit, job_id) for job_id in dict.fromkeys(item.job_id for item in batch)
            }
        for job_id, wanted in records.items():
            self._write_or_pass_over([item for item in batch if item.job_id == job_id], wanted)
        if batch:
            self._done = batch[-1].seq
            where = {"seq": self._done, "at": batch[-1].at, "boot": process_table.boot_id()}
            _replace(self._cursor, where)
        return len(batch) == _BATCH

    def _write_or_pass_over(self, transitions: list[TransitionRow], records: Mapping[str, Any]) -> None:
        """A workload may do anything to its job's directory; what the disk refuses is tried again."""
        try:
            self._write(transitions, records)
        except OSError as error:
            if error.errno not in _CHANGED_BY_OTHERS:
                raise
            _LOG.warning("the directory of job %s is spoilt: %s", transitions[0].job_id, error)

    def _write(self, transitions: list[TransitionRow], records: Mapping[str, Any]) -> None:
        try:
            paths = self._storage.paths(transitions[0].workspace, transitions[0].job_id)
        except InvalidError:
            return
        job = records.get("job")
        if job is not None and job.status is not HelixJobStatus.DELETION_PENDING:
            paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (paths.transitions, *paths.records):
            if _is_obstructed(path, folder=path in paths.record_folders):
                self._storage.discard(path)
        with contextlib.suppress(FileNotFoundError):
            _append(paths.transitions, transitions)
            _write_records(paths, records)


def _is_obstructed(path: Path, *, folder: bool) -> bool:
    """Whether something is in the way of a record; to write to a pipe would wait for its reader."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        return not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode))
    return False


def _records(unit: StoreReader, job_id: str) -> dict[str, Any]:
    job = unit.jobs.by_id(job_id)
    if job is None:
        return {}
    steps = unit.steps.of_attempt(job.attempt_id)
    return {
        "job": job,
        "attempt": unit.attempts.by_id(job.attempt_id),
        "steps": steps,
        "tasks": unit.tasks.of_attempt(job.attempt_id) if any(step.task for step in steps) else [],
    }


def _write_records(paths: JobDirectory, records: Mapping[str, Any]) -> None:
    if not records:
        return
    seq = records["job"].attempt_seq
    if records["attempt"] is not None:
        _replace(paths.attempt_record(seq), records["attempt"])
    for step in records["steps"]:
        _replace(paths.step_record(seq, step.name), step)
    for task in records["tasks"]:
        with contextlib.suppress(InvalidError):
            _replace(paths.task_record(task.name), task)
    # last: who finds a job's status there finds its parts as they were then, or later
    _replace(paths.record, records["job"])


def _append(path: Path, transitions: Iterable[TransitionRow]) -> None:
    """Append what is not there yet, by one write; a line that a crash tore is set aside first."""
    rows.repair_tail(path)
    last = _last_seq(path)
    new = [item for item in transitions if item.seq > last]
    if not new:
        return
    data = b"".join(orjson.dumps(item) + b"\n" for item in new)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise disk.full_disk(path, "only a part of a row fitted")
    finally:
        os.close(descriptor)


def _last_seq(path: Path) -> int:
    """The newest transition in a file of whole lines; 0 for none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 16)))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return 0
    for line in reversed(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(json.loads(line)["seq"])
    return 0


def _replace(path: Path, value: object) -> None:
    """Replace a record; not durable on its own, since the outbox writes it again."""
    data = orjson.dumps(value, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    with disk.temporary_beside(path) as temporary:
        try:
            temporary.write_bytes(data)
        except FileNotFoundError:
            path.parent.mkdir(exist_ok=True)
            temporary.write_bytes(data)
        temporary.replace(path)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def _begin(cursor: Path, unit: StoreReader) -> int:
    """The newest transition that is surely written down."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        where = json.loads(cursor.read_bytes())
        if where["boot"] == process_table.boot_id():
            return int(where["seq"])
        return min(int(where["seq"]), unit.transitions.last(before=int(where["at"]) - _AGAIN))
    return 0
