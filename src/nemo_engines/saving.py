"""Room for what is saved, looked for before the training; and what a save that failed comes to."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from nemo_engines.errors import NotSavedError, TrainerError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_WRITTEN = ("file write failed", "File too large")
"""What torch and safetensors say."""
_LITTLE = 1 << 20
_MARGIN = 64 << 20


def not_saved(folder: Path, step: int, error: Exception) -> NotSavedError:
    """Whatever a save failed with, as one sentence; the folder that it wrote to is removed."""
    full = (
        getattr(error, "errno", None) in _FULL
        or "No space left" in str(error)
        or _free(folder.parent) < _LITTLE
    )
    shutil.rmtree(folder, ignore_errors=True)
    why = "No space left on device" if full else f"{type(error).__name__}: {error}"
    if not full and any(sign in str(error) for sign in _NOT_WRITTEN):
        why = "its files could not be written: the disk is full, or a limit on the size of files was reached"
    return NotSavedError(
        f"the checkpoint of step {step} was not saved: {why}; the checkpoints from before are as they were"
    )


def _free(folder: Path) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return _LITTLE
    return found.f_bavail * found.f_frsize


def check_room(needs: Mapping[Path, int]) -> None:
    """`TrainerError` when the disk of a folder has less room than the bytes that it needs."""
    by_disk: dict[int, int] = {}
    for folder, size in needs.items():
        disk = folder.stat().st_dev
        by_disk[disk] = by_disk.get(disk, 0) + size
        found = os.statvfs(folder)
        free = found.f_bavail * found.f_frsize
        if free < by_disk[disk] + _MARGIN:
            raise TrainerError(
                f"the disk of {folder} has {_shown(free)} left, and a checkpoint and the trained model need "
                f"{_shown(by_disk[disk] + _MARGIN)}: make room, then start again"
            )


def _shown(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
