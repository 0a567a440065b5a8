"""What can end a training run before its time: the errors of the trainer contract, each with its exit
code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

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
    "DivergedError",
    "EngineUnavailableError",
    "NotSavedError",
    "TrainerError",
    "TrainingDataError",
    "setting_up",
]


_NO_TARGETS = "no trainable parameters"
_MEMORY = ("out of memory", "allocate memory")


@contextlib.contextmanager
def setting_up(still: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """While a library sets a run up, whatever it raises is its refusal of this model or these options.

    What the machine lacks is not: that is left as it is, as is what happens when it is not ``still`` so.
    """
    try:
        yield
    except (TrainerError, MemoryError):
        raise
    except ImportError as error:
        if not still():
            raise
        raise EngineUnavailableError(f"this run needs a package that is not here: {error}") from error
    except Exception as error:
        text = " ".join(str(error).split())
        if not still() or any(part in text.lower() for part in _MEMORY):
            raise
        raise BadSpecError(f"the library refuses this run: {_sentence(error, text)}") from error


def _sentence(error: Exception, text: str) -> str:
    if _NO_TARGETS in text:
        text += "; does the model have the modules that lora.target_modules names?"
    plain = text and isinstance(error, ValueError | OSError | RuntimeError)
    return text[:1000] if plain else f"{type(error).__name__}: {text[:1000]}"


class TrainingDataError(BadSpecError):
    """A row of a dataset cannot be trained on; the message names the file and the line."""
