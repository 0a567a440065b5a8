"""Where a generation goes on: a file of metrics that no older process writes to, and the record of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from nemo_runs.durable import disk
from nemo_runs.durable.files import repair_tail, sync_folder
from nemo_trainer import rows_before
from nemo_trainer.contract import Checkpoint, ContinueRow, JobContext, TrainerPaths, generations
from nemo_trainer.contract.generations import Generation, Takeover
from nemo_trainer.rows_before import RowsBefore


def predecessor(context: JobContext) -> Generation | None:
    """The generation that this one will follow: to be asked before a checkpoint is chosen, see `begin`."""
    known = generations.lineage(context.trainer_path)
    return next((one for one in known if one.number < context.generation), None)


def begin(
    context: JobContext,
    step: int,
    row: ContinueRow | None,
    fence: Callable[[], None],
    *,
    after: Generation | None,
    at: float,
) -> bool:
    """Put on record that this generation goes on after a step; whether ``row`` was written in doing so.

    ``after`` is what `predecessor` said. A generation with names of its own begins its file of metrics with a
    copy of all whole rows from before; what an older process appends to its own file meanwhile is in none.
    Killed at any moment, it leaves what the next one finds all rows in. Raises `TrainerError` where rows from
    before are nowhere any more.
    """
    folder, metrics = context.trainer_path, context.paths.metrics
    number = after.number if after else 0
    own = generations.read(folder, context.generation).takeover if context.own_names else None
    if not context.own_names or (own is not None and metrics.exists()):
        repair_tail(metrics)
        size = metrics.stat().st_size if metrics.exists() else 0
        name = metrics.name
        _record(context, Takeover(step=step, file=name, offset=size, of=name, after=number, at=at))
        _remove_older(context)
        return False
    before = own or (after.takeover if after else None)
    source = rows_before.open_rows(folder, before.file if before else TrainerPaths(folder).metrics.name)
    with source, disk.temporary_beside(metrics) as temporary:
        size = _copy_rows(source, temporary, b"" if row is None else row.to_line() + b"\n")
        fence()
        temporary.replace(metrics)
    sync_folder(folder)
    # only now, since the record must never name a file that is not there
    _record(context, Takeover(step=step, file=metrics.name, offset=size, of=source.name, after=number, at=at))
    _remove_older(context)
    return True


def adopt(context: JobContext, checkpoint: Checkpoint) -> Path:
    """Give the checkpoint that training goes on from a name that no older process knows; its folder then.

    One that was named by its folder keeps that name, since it may be named so again.
    """
    place = context.paths.checkpoint(checkpoint.step)
    here = checkpoint.folder.parent == context.paths.checkpoints and context.checkpoint is None
    if not context.own_names or not here or checkpoint.folder == place or place.exists():
        return checkpoint.folder
    checkpoint.folder.rename(place)
    sync_folder(place.parent)
    return place


def _record(context: JobContext, takeover: Takeover) -> None:
    if context.generation:
        generations.record_takeover(
            context.trainer_path, context.generation, takeover, durable=context.own_names
        )


def _remove_older(context: JobContext) -> None:
    """Remove the files of metrics that older generations had for themselves: their rows are in this one's."""
    if context.own_names:
        shared = TrainerPaths(context.trainer_path).metrics
        for path in context.trainer_path.glob(f"{shared.stem}.g*{shared.suffix}"):
            if 0 < generations.own_number(path.stem) < context.generation:
                path.unlink(missing_ok=True)


def _copy_rows(source: RowsBefore, target: Path, last: bytes) -> int:
    """Copy the whole rows from before and write ``last`` behind them; the number of bytes copied."""
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    whole = size = 0
    try:
        with disk.full_disk_named(target):
            while block := source.read(disk.CHUNK):
                disk.write_all(descriptor, block)
                end = block.rfind(b"\n") + 1
                whole = size + end if end else whole
                size += len(block)
        os.ftruncate(descriptor, whole)
        os.lseek(descriptor, whole, os.SEEK_SET)
        with disk.full_disk_named(target):
            disk.write_all(descriptor, last)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return whole
