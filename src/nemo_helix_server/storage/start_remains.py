"""What a start of a training has left: whether it had finished, how far it was, from where to go on."""

from __future__ import annotations

import re
from typing import Any

from nemo_helix_server.storage.trainer_files import SeenCheckpoint, TrainerFiles

_ID = re.compile(r"ckpt-([1-9][0-9]{0,15})-")


def said(trainer: TrainerFiles, token: str) -> dict[str, Any]:
    """What this start said last; empty when another one has said something since."""
    progress = trainer.progress()
    return progress if progress.get("task") == token else {}


def says_done(trainer: TrainerFiles, token: str) -> bool:
    """Whether this start has said that its training is completed."""
    return said(trainer, token).get("phase") == "completed"


def is_done(trainer: TrainerFiles, token: str) -> bool:
    """Whether this start has said so, and what it says it has produced, if anything, is there."""
    return says_done(trainer, token) and not trainer.output_problems(deep=False)


def newest_whole(trainer: TrainerFiles) -> SeenCheckpoint | None:
    """The newest checkpoint whose files are all there, sizes compared."""
    return next((found for found in reversed(trainer.checkpoints()) if found.problem is None), None)


def goes_on_from(trainer: TrainerFiles, attempt_id: str, named: str | None) -> int | None:
    """The training step of the checkpoint from which another start would go on; None: from none.

    ``named`` is the checkpoint that a rerun was asked to start from: it counts until the attempt has its own.
    """
    found = newest_whole(trainer)
    name = _ID.match(named or "")
    if name is not None and (found is None or not _is_of(found, attempt_id)):
        return int(name[1])
    return None if found is None else found.step


def has_own_checkpoint(trainer: TrainerFiles, attempt_id: str) -> bool:
    """Whether there is a checkpoint of this attempt, whole or not."""
    return any(_is_of(found, attempt_id) for found in trainer.checkpoints())


def whole_checkpoints(trainer: TrainerFiles) -> list[str]:
    """The ids of the checkpoints whose files are all there, sizes compared; oldest first."""
    return [found.id for found in trainer.checkpoints() if found.problem is None]


def has_saved(trainer: TrainerFiles, token: str) -> bool:
    """Whether this start has saved a checkpoint whose files are all there, sizes compared."""
    return any(
        found.problem is None and found.manifest is not None and found.manifest.task == token
        for found in trainer.checkpoints()
    )


def last_step(trainer: TrainerFiles, token: str) -> int:
    """The last training step that is known to have been finished; 0: none is."""
    said = trainer.progress()
    step = said.get("step") if said.get("task") == token else None
    known = step if isinstance(step, int) and not isinstance(step, bool) else 0
    return max(known, trainer.last_recorded_step())


def _is_of(found: SeenCheckpoint, attempt_id: str) -> bool:
    return found.manifest is not None and found.manifest.attempt == attempt_id
