"""What can end a training run before its time: the errors of the trainer contract, each with its exit
code."""

from __future__ import annotations

from nemo_trainer.contract import (
    BadSpecError,
    CheckpointUnusableError,
    DivergedError,
    EngineUnavailableError,
    NotSavedError,
    TrainerError,
)

__all__ = [
    "BadSpecError",
    "CheckpointUnusableError",
    "DataError",
    "DivergedError",
    "EngineUnavailableError",
    "NotSavedError",
    "TrainerError",
]


class DataError(BadSpecError):
    """A row of a dataset cannot be trained on; the message names the file and the line."""
