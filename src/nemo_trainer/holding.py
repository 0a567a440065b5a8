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
    TrainerPaths,
    generations,
    read_control,
    write_outputs,
)
from nemo_trainer.contract.files import files_below, seal, sync_folders
from nemo_trainer.contract.generations import GENERATION, RELEASED, Generation

_BY = "trainer"


class WriterHold:
    """This process's hold of a trainer path: the newest generation, and the record in ``writer.json``.

    A process that takes hold later has a later generation. Processes outlive what watches them (a node that a
    scheduler gives up goes on running), so both are looked at before everything that is written: the record
    too, since a file server's client may remember for a while that a name of a claim was not there.
    """

    def __init__(self, trainer_path: Path, generation: Generation, me: trees.ProcessIdentity) -> None:
        """Write the record; whether that may be done is for `take_hold` to say."""
        self.generation = generation
        self._folder = trainer_path
        self._path = TrainerPaths(trainer_path).writer
        self._record = {**me.to_json(), GENERATION: generation.number}
        self._me = me
        self._next = os.fspath(generations.claim_file(trainer_path, generation.number + 1))
        self._mark = self._put(self._record)
        self.require()

    def require(self) -> None:
        """Raise `NotWriterError` when the right to write is not this process's any more."""
        if os.path.lexists(self._next):  # `generations.is_current`, without making the path for each row
            raise NotWriterError(self._replaced())
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
        if other == self._me:
            return
        if _count(value.get(GENERATION)) < self.generation.number:
            # the newest claim is still this one's: a process that was replaced was late with its record
            self._mark = self._put(self._record)
            if generations.is_current(self._folder, self.generation.number):
                return
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
                self._mark = self._put({**self._record, RELEASED: time.time()})

    def _put(self, record: dict[str, Any]) -> tuple[int, int, int]:
        replace_file(self._path, json.dumps(record).encode("ascii") + b"\n", mode=None)
        return _mark(self._path)

    def _replaced(self) -> str:
        later = generations.newest(self._folder)
        process = later.process if later else None
        if process is None:
            who = f"the start {later.task}" if later and later.task else "another start"
        else:
            who = f"process {process.pid} on {process.host}"
        number = later.number if later else self.generation.number + 1
        return (
            f"{self._folder}: {who} has taken over this training as generation {number}; this one, "
            f"generation {self.generation.number}, ends and writes nothing more"
        )


def take_hold(context: JobContext) -> WriterHold:
    """Become the writer of the trainer path, in a generation; raises `TrainerError` while another process is.

    A process that cannot be seen from here counts as alive, unless it has let go, or the Jobs service has
    started this one in its place: then it finds that out by `WriterHold.require`. A generation that the
    launcher has claimed for this start is taken, and then not even a process that is seen to live hinders it.
    """
    context.paths.checkpoints.mkdir(parents=True, exist_ok=True)
    me, claimed = trees.identify(), claimed_for(context)
    writer = generations.read_writer(context.trainer_path)
    again = writer is not None and claimed is not None and writer.generation == claimed.number
    if writer is not None and not writer.is_over and (claimed is None or again):
        _require_gone(context, writer.process, confirmed=again or _is_current_start(context))
    if claimed is None or (again and writer is not None and not writer.is_over):
        newest = generations.newest(context.trainer_path)
        known = writer is not None and newest is not None and writer.generation == newest.number
        if not known and newest is not None and newest.process is not None and newest.process != me:
            _require_unseen(context, newest.process)
        claimed = generations.claim(
            context.trainer_path, task=context.task, attempt=context.attempt, by=_BY, process=me
        )
    return WriterHold(context.trainer_path, claimed, me)


def held_by_rank_0(context: JobContext) -> JobContext:
    """The context of another rank with the generation that rank 0 of the same start holds, if it has one."""
    for one in reversed(generations.records(context.trainer_path)):
        if one.task == context.task:
            return context.holding(one.number, own_names=one.own_names)
    return context


def claimed_for(context: JobContext) -> Generation | None:
    """What the launcher has claimed for this start; raises `NotWriterError` when a later one was claimed."""
    if not context.generation:
        return None
    found = generations.read(context.trainer_path, context.generation)
    if not found.task or found.task != context.task:
        return None
    if not generations.is_current(context.trainer_path, found.number):
        raise NotWriterError(
            f"{context.trainer_path}: a later start has taken over this training; this one, generation "
            f"{found.number}, ends and writes nothing"
        )
    return found


def record_outputs(context: JobContext, paths: Sequence[Path]) -> None:
    """Make files, and all files in folders, durable and name them in ``OUTPUTS.json``."""
    storage, files = context.storage.resolve(), list[Path]()
    for path in (context.trainer_path / path for path in paths):
        if not path.resolve().is_relative_to(storage):
            raise TrainerError(f"{path}: is outside the job's storage {storage}, which is all that is kept")
        if path.is_dir():
            files += files_below(path)
            sync_folders(path)
        elif path.is_file():
            files.append(path)
        else:
            raise TrainerError(f"{path}: is missing, so it cannot be an output")
    entries = seal(context.trainer_path, dict.fromkeys(files))
    outputs = Outputs(context.task, time.time(), entries, context.generation)
    write_outputs(context.trainer_path, outputs, own_names=context.own_names)


def _require_gone(context: JobContext, other: trees.ProcessIdentity, *, confirmed: bool) -> None:
    _require_unseen(context, other)
    if trees.liveness(other) is trees.Liveness.ELSEWHERE and not confirmed:
        raise TrainerError(
            f"{context.trainer_path}: process {other.pid} on {other.host} trains here, or was ended before "
            "it could say that it stops, and it cannot be seen from here; make sure that it has ended, then "
            f"remove {context.paths.writer}"
        )


def _require_unseen(context: JobContext, other: trees.ProcessIdentity) -> None:
    if trees.liveness(other) is trees.Liveness.ALIVE:
        raise TrainerError(f"{context.trainer_path}: process {other.pid} trains here already; end it first")


def _is_current_start(context: JobContext) -> bool:
    """Whether the Jobs service vouches for this start: the control file is its task's, and does not end it.

    The service starts a step again only once it has given up the start before.
    """
    file = context.control_file
    if file is None or file.parent.name != context.task:
        return False
    control = read_control(file)
    return control is None or control.want != "stop"


def _count(value: object) -> float:
    """A generation as it is in a record; a record without one, of an older version, follows all."""
    return value if isinstance(value, int) else float("inf")


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes when another record takes the place of this one; opened, so that NFS asks its server."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_ino, status.st_mtime_ns, status.st_size
