"""What a save that failed comes to: one sentence, and its space free again."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from nemo_engines.errors import NotSavedError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_WRITTEN = ("file write failed", "File too large")
"""What torch and safetensors say."""
_LITTLE = 1 << 20


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
