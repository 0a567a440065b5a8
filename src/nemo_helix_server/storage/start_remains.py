"""What a start of a training has left: whether it had finished, how far it was, from where to go on."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nemo_runs.durable.disk import open_regular
from nemo_trainer import contract

_TAIL = 1 << 16
_ID = re.compile(r"ckpt-([1-9][0-9]{0,15})-")


def says_done(trainer_path: Path, token: str) -> bool:
    """Whether this start has said that its training is completed."""
    said = contract.read_progress(contract.TrainerPaths(trainer_path).progress, within=trainer_path.parent)
    return said.get("task") == token and said.get("phase") == "completed"


def is_done(trainer_path: Path, storage: Path, token: str) -> bool:
    """Whether this start has said so, and what it says it has produced, if anything, is there."""
    if not says_done(trainer_path, token):
        return False
    if not contract.TrainerPaths(trainer_path).outputs.exists():
        return True
    return not contract.verify_outputs(trainer_path, storage=storage, deep=False)


def goes_on_from(trainer_path: Path, attempt_id: str, named: str | None) -> int | None:
    """The training step of the checkpoint from which another start would go on; None: from none.

    ``named`` is the checkpoint that a rerun was asked to start from: it counts until the attempt has its own.
    """
    found = contract.newest_verified(trainer_path, deep=False, within=trainer_path.parent).checkpoint
    name = _ID.match(named or "")
    if name is not None and (found is None or found.manifest.attempt != attempt_id):
        return int(name[1])
    return None if found is None else found.step


def whole_checkpoints(trainer_path: Path) -> list[str]:
    """The ids of the checkpoints whose files are all there, sizes compared; oldest first."""
    return [
        found.id
        for found in contract.list_checkpoints(trainer_path, within=trainer_path.parent)
        if isinstance(found, contract.Checkpoint)
        and not contract.verify(found.folder, deep=False, within=trainer_path.parent)
    ]


def has_saved(trainer_path: Path, token: str) -> bool:
    """Whether this start has saved a checkpoint whose files are all there, sizes compared."""
    within = trainer_path.parent
    return any(
        isinstance(found, contract.Checkpoint)
        and found.manifest.task == token
        and not contract.verify(found.folder, deep=False, within=within)
        for found in contract.list_checkpoints(trainer_path, within=within)
    )


def last_step(trainer_path: Path, token: str) -> int:
    """The last training step that is known to have been finished; 0: none is."""
    paths = contract.TrainerPaths(trainer_path)
    said = contract.read_progress(paths.progress, within=trainer_path.parent)
    step = said.get("step") if said.get("task") == token else None
    known = step if isinstance(step, int) and not isinstance(step, bool) else 0
    return max(known, _last_recorded(paths.metrics, trainer_path.parent))


def _last_recorded(path: Path, within: Path) -> int:
    try:
        with open(open_regular(path, within=within), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read(_TAIL).split(b"\n")
    except OSError:
        return 0
    for line in reversed(lines):
        row = contract.parse_row(line) if line else None
        if row is not None:
            return row.continue_from if isinstance(row, contract.ContinueRow) else row.step
    return 0
