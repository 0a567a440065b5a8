"""Which checkpoints are kept: a decision, and carrying it out."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from nemo_runs.durable.files import sync_folder
from nemo_trainer.contract import (
    PINNED,
    Checkpoint,
    Damaged,
    TrainerPaths,
    list_superseded,
    sort_checkpoints,
)
from nemo_trainer.contract.generations import own_number

_FEWEST = 2
_PRUNED = ".pruned-"


def removable(
    found: Sequence[Checkpoint | Damaged],
    *,
    keep: int,
    best: tuple[str, str] | None,
    verified: Callable[[Checkpoint], bool],
    keep_steps: Collection[int] = (),
) -> list[Checkpoint | Damaged]:
    """What may go, oldest first: not the last ``keep`` whole ones (at least two), the best, nor pinned ones,
    nor those of ``keep_steps``.

    A damaged one goes once there are enough whole ones that are newer. ``verified`` is asked about the newest
    ones only, until enough are whole.
    """
    whole: list[Checkpoint] = []
    rest: list[Checkpoint | Damaged] = []
    for item in reversed(found):
        if len(whole) >= max(keep, _FEWEST):
            rest.append(item)
        elif isinstance(item, Checkpoint) and verified(item):
            whole.append(item)
    kept = _best([item for item in found if isinstance(item, Checkpoint)], best)
    return [
        item
        for item in reversed(rest)
        if item is not kept and item.step not in keep_steps and not (item.folder / PINNED).exists()
    ]


def prune(
    paths: TrainerPaths,
    *,
    keep: int,
    best: tuple[str, str] | None,
    verified: Callable[[Checkpoint], bool],
    keep_steps: Collection[int] = (),
) -> list[int]:
    """Remove what may go; return the steps removed.

    What a later generation saved, should this process have been replaced, is left alone.
    """
    found, outdated = sort_checkpoints(paths.folder)
    old = removable(found, keep=keep, best=best, verified=verified, keep_steps=keep_steps)
    gone = [item for item in old if _is_ours(paths, item)]
    for item in outdated:  # first, or one would count again once the one that was saved later is gone
        if _is_ours(paths, item) and not (item.folder / PINNED).exists():
            _remove(paths, item.folder)
    removed = [item.step for item in gone if _remove(paths, item.folder)]
    newest = next((item for item in reversed(found) if isinstance(item, Checkpoint) and verified(item)), None)
    for left in list_superseded(paths.folder):
        if newest is not None and newest.step >= left.step and not left.pinned:
            shutil.rmtree(left.folder, ignore_errors=True)
    return removed


def clean(paths: TrainerPaths) -> None:
    """Finish removals that a crash interrupted, and give back what was pinned meanwhile."""
    for folder in paths.checkpoints.glob(f"{_PRUNED}*"):
        place = paths.checkpoints / folder.name.removeprefix(_PRUNED)
        if own_number(place.name) > paths.generation:
            continue
        if (folder / PINNED).exists() and not place.exists():
            folder.rename(place)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(paths: TrainerPaths, item: Checkpoint | Damaged) -> bool:
    return own_number(item.folder.name) <= paths.generation


def _remove(paths: TrainerPaths, folder: Path) -> bool:
    """Take a folder out of the history, then remove it unless somebody has pinned it in between."""
    aside = paths.checkpoints / f"{_PRUNED}{folder.name}"
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rename(aside)
        if (aside / PINNED).exists():
            aside.rename(folder)
            return False
        sync_folder(paths.checkpoints)
        shutil.rmtree(aside, ignore_errors=True)
        return True
    return False


def _best(found: Sequence[Checkpoint], best: tuple[str, str] | None) -> Checkpoint | None:
    if best is None:
        return None
    name, which = best
    rated = [item for item in found if name in item.manifest.metrics]
    sign = -1 if which == "max" else 1
    return min(rated, key=lambda item: (sign * item.manifest.metrics[name], item.step), default=None)
