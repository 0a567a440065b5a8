"""The errors of this package. Messages say what was wrong, what was found and what to do."""

from __future__ import annotations

from typing import ClassVar

from nemo_trainer.contract import names


class TrainerError(Exception):
    """Something about a training run's files or requests is not as it must be."""

    exit_code: ClassVar[int] = 1
    """What a trainer that ends because of this leaves with."""


class BadSpecError(TrainerError):
    """The trainer cannot do what was requested."""

    exit_code = names.EXIT_BAD_SPEC


class EngineUnavailableError(TrainerError):
    """A training library is not there, or not for this machine."""

    exit_code = names.EXIT_ENGINE_UNAVAILABLE


class CheckpointUnusableError(TrainerError):
    """A checkpoint that must be used is damaged, or belongs to other inputs."""

    exit_code = names.EXIT_CHECKPOINT_UNUSABLE


class InputsChangedError(CheckpointUnusableError):
    """A checkpoint is whole and belongs to other inputs, as every one of its training does."""


class DivergedError(TrainerError):
    """Training has left the finite numbers."""

    exit_code = names.EXIT_DIVERGED


class NotSavedError(TrainerError):
    """A checkpoint could not be saved; those before it are as they were."""


class NotWriterError(TrainerError):
    """Another process has become the writer of the trainer path; this one must write nothing more."""
