"""The one writer of a training folder: taking hold of it, proving that it holds it, naming its outputs."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_runs.durable.files import replace_file
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees
from nemo_trainer.contract import (
    JobContext,
    NotWriterError,
    Outputs,
    TrainerError,
    read_control,
    write_outputs,
)
from nemo_trainer.contract.files import files_below, seal, sync_folders

_RELEASED = "released_at"
"""Key of ``writer.json``: when its process let go of the folder, in seconds since the epoch."""


class WriterHold:
    """This process's hold of a trainer path, on record in ``writer.json``.

    A process that takes hold later replaces the record. Processes outlive what watches them (a node that a
    scheduler gives up goes on running), so the record is looked at before everything that is written.
    """

    def __init__(self, path: Path, me: trees.ProcessIdentity) -> None:
        """Write the record to ``path``; whether that may be done is for `take_hold` to say."""
        self._path = path
        self._me = me
        replace_file(path, _line(me.to_json()))
        self._mark = _mark(path)

    def require(self) -> None:
        """Raise `NotWriterError` when the record is not this process's any more."""
        try:
            if _mark(self._path) == self._mark:
                return
            value = json.loads(self._path.read_bytes())
            other = trees.ProcessIdentity.from_json(value)
        except (OSError, ValueError, RunsError) as error:
            raise NotWriterError(
                f"{self._path}: does not name this process any more ({error}), so another one may train "
                "here; this one ends and writes nothing more"
            ) from error
        if other != self._me:
            raise NotWriterError(
                f"{self._path}: process {other.pid} on {other.host} has taken over this training; this one "
                "ends and writes nothing more"
            )

    def is_mine(self) -> bool:
        """Whether `require` would pass."""
        try:
            self.require()
        except NotWriterError:
            return False
        return True

    def release(self) -> None:
        """Put on record that this process writes nothing more, so that one on another machine may follow."""
        with contextlib.suppress(OSError, RunsError):
            if self.is_mine():
                replace_file(self._path, _line({**self._me.to_json(), _RELEASED: time.time()}))
                self._mark = _mark(self._path)


def take_hold(context: JobContext) -> WriterHold:
    """Become the writer of the trainer path; raises `TrainerError` while another process is.

    A process that cannot be seen from here counts as alive, unless it has let go, or the Jobs service has
    started this one in its place: then it finds that out by `WriterHold.require`.
    """
    context.paths.checkpoints.mkdir(parents=True, exist_ok=True)
    me, path = trees.identify(), context.paths.writer
    try:
        value = json.loads(path.read_bytes())
        other = trees.ProcessIdentity.from_json(value)
    except (OSError, ValueError, TypeError, RunsError):
        return WriterHold(path, me)
    released = isinstance(value.get(_RELEASED), int | float)
    alive = trees.liveness(other)
    if other != me and not released and alive is trees.Liveness.ALIVE:
        raise TrainerError(f"{context.trainer_path}: process {other.pid} trains here already; end it first")
    if not released and alive is trees.Liveness.ELSEWHERE and not _is_current_start(context):
        raise TrainerError(
            f"{context.trainer_path}: process {other.pid} on {other.host} trains here, or was ended before "
            "it could say that it stops, and it cannot be seen from here; make sure that it has ended, then "
            f"remove {path}"
        )
    return WriterHold(path, me)


def record_outputs(context: JobContext, paths: Sequence[Path]) -> None:
    """Make files, and all files in folders, durable and name them in ``OUTPUTS.json``."""
    storage, files = context.storage.resolve(), list[Path]()
    for path in (context.trainer_path / path for path in paths):
        if not path.resolve().is_relative_to(storage):
            raise TrainerError(f"{path}: lies outside the job's storage {storage}, which is all that is kept")
        if path.is_dir():
            files += files_below(path)
            sync_folders(path)
        elif path.is_file():
            files.append(path)
        else:
            raise TrainerError(f"{path}: is missing, so it cannot be an output")
    entries = seal(context.trainer_path, dict.fromkeys(files))
    write_outputs(context.trainer_path, Outputs(context.task, time.time(), entries))


def _is_current_start(context: JobContext) -> bool:
    """Whether the Jobs service vouches for this start: the control file is its task's, and does not end it.

    The service starts a step again only once it has given up the start before.
    """
    file = context.control_file
    if file is None or file.parent.name != context.task:
        return False
    control = read_control(file)
    return control is None or control.want != "stop"


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes when another record takes the place of this one; opened, so that NFS asks its server."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_ino, status.st_mtime_ns, status.st_size


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"
