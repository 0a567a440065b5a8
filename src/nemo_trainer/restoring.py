"""Deciding from which checkpoint training goes on, and making the history agree with that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nemo_trainer import publishing, taking_over
from nemo_trainer.contract import (
    Checkpoint,
    CheckpointUnusableError,
    ContinueRow,
    Found,
    InputsChangedError,
    JobContext,
    MetricTail,
    TrainerPaths,
    list_checkpoints,
    newest_verified,
    read_checkpoint,
    verify,
)
from nemo_trainer.contract.generations import newest_file, own_number

_UNNAMED_ATTEMPT = "local"
_TRIES = 6
"""How often a checkpoint is chosen at most, where other processes remove or rename those chosen before."""


def choose(context: JobContext, inputs: Mapping[str, str], fence: Callable[[], None] = lambda: None) -> Found:
    """The checkpoint to go on from; raises `CheckpointUnusableError` when the one to be used cannot be.

    One that was named counts until the same attempt has published a later one: then that is newer. ``fence``
    raises when this process must not write here any more.
    """
    for tries_left in reversed(range(_TRIES)):
        found = (
            newest_verified(context.trainer_path, deep=True)
            if context.checkpoint is None
            else _named(context)
        )
        if found.checkpoint is None:
            break
        _require_inputs(found.checkpoint, inputs)
        if not context.writes:
            break
        fence()
        try:
            folder = taking_over.adopt(context, found.checkpoint)
        except FileNotFoundError:
            if not tries_left:
                raise
            continue  # an older process has pruned it, or was about to go on from it as well
        return found._replace(checkpoint=replace(found.checkpoint, folder=folder))
    return found


def set_later_aside(context: JobContext, checkpoint: Checkpoint) -> None:
    """Put what lies after a named checkpoint beside the history, so that nothing goes on from it."""
    for item in list_checkpoints(context.trainer_path):
        if own_number(item.folder.name) > context.generation:
            continue  # of a later generation: this process was replaced
        other = isinstance(item, Checkpoint) and item.digest != checkpoint.digest
        if item.step > checkpoint.step or (item.step == checkpoint.step and other):
            publishing.supersede(context.paths, item.folder)


def is_taken(context: JobContext, step: int) -> bool:
    """Whether this attempt has already gone on from the named checkpoint, and its history is its own."""
    if context.attempt == _UNNAMED_ATTEMPT:
        return False
    tail, taken = MetricTail(newest_file(TrainerPaths(context.trainer_path).metrics)), False
    while True:
        rows, offset = tail.read()
        if offset == tail.offset:
            return taken
        tail = MetricTail(tail.path, offset)
        mine = (row for row in rows if isinstance(row, ContinueRow) and row.attempt == context.attempt)
        taken = taken or any(row.continue_from == step for row in mine)


def _named(context: JobContext) -> Found:
    folder = context.checkpoint
    assert folder is not None
    if problems := verify(folder, deep=True):
        raise CheckpointUnusableError(f"the checkpoint that was asked for cannot be used: {problems[0]}")
    named = read_checkpoint(folder)
    if is_taken(context, named.step):
        newest = newest_verified(context.trainer_path, deep=True)
        if newest.checkpoint is not None and newest.checkpoint.step > named.step:
            return newest
    return Found(named, ())


def _require_inputs(checkpoint: Checkpoint, inputs: Mapping[str, str]) -> None:
    before = checkpoint.manifest.inputs
    changed = sorted(name for name in inputs if name in before and before[name] != inputs[name])
    if changed:
        sides = "; ".join(_both(name, before, inputs) for name in changed)
        raise InputsChangedError(
            f"{checkpoint.folder}: belongs to other inputs: {sides}; put back what was there, "
            "or create a new job"
        )


def _both(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    return f"{name} was {before[name]} when it was saved and is {now[name]} now"
