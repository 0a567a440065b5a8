"""A training run's side of the contract: what is wanted of it, its checkpoints, metrics and progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from nemo_trainer import contract
from nemo_trainer.contract import Checkpoint, JobContext, Reason, Want


class Session:
    """One start of a training; open it before heavy imports, use it from the training loop's thread.

    With several ranks every rank opens one; only rank 0 (environment variable ``RANK``) writes.
    """

    context: JobContext

    @classmethod
    def open(
        cls,
        context: JobContext | None = None,
        *,
        inputs: Mapping[str, str] | None = None,
        engine: Mapping[str, Any] | None = None,
        environment: str | None = None,
        boundary: int = 1,
    ) -> Self:
        """Install the signal handlers, then take hold of the trainer path.

        ``inputs`` are digests of what must be the same when training goes on; ``boundary``: training can only
        stop exactly after steps that are multiples of it.
        """
        raise NotImplementedError

    def restore(self) -> Checkpoint | None:
        """The checkpoint to go on from, every digest verified; `None` = start from the beginning.

        A checkpoint that was asked for by name must be whole; otherwise the newest whole one is taken, and
        damaged ones are named in the progress and on standard error. Raises `CheckpointUnusableError`.
        """
        raise NotImplementedError

    def wanted(self) -> Want:
        """What is wanted now; costs one ``stat``, call it after every step. On rank 0 only, see `agreed`."""
        raise NotImplementedError

    def agreed(self, broadcast: Callable[[Want], Want]) -> Want:
        """The same decision on every rank: ``broadcast`` hands rank 0's value to all and returns it."""
        raise NotImplementedError

    def metrics(self, step: int, values: Mapping[str, float], epoch: float | None = None) -> None:
        """Append values of a finished step; what is no finite number is left out."""
        raise NotImplementedError

    def progress(self, **fields: Any) -> None:
        """Say where training stands (phase, step, max_steps, epoch, num_epochs, backend, …)."""
        raise NotImplementedError

    def staging(self, step: int) -> Path:
        """The folder into which the ranks of one training write the files of a checkpoint, see `publish`."""
        raise NotImplementedError

    def publish(
        self,
        source: Path | Callable[[Path], object],
        step: int,
        reason: Reason = "periodic",
        *,
        metrics: Mapping[str, float] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Make a checkpoint of a folder (it is moved), or of what a function writes into the folder it is given.

        Raises `NotSavedError`; the checkpoints from before are then as they were.
        """
        raise NotImplementedError

    def prune(self, keep: int = 2, best: tuple[str, str] | None = None) -> list[int]:
        """Remove old checkpoints, never the last two whole ones nor pinned ones; return the steps removed.

        ``best`` = (name of a metric, ``min`` or ``max``) also keeps the one that is best by it.
        """
        raise NotImplementedError

    def outputs(self, paths: Sequence[Path]) -> None:
        """Record the files (and all files in the folders) that this step has produced, with digests."""
        raise NotImplementedError

    def paused(self) -> NoReturn:
        """Leave at once with exit code 75; a checkpoint of the last finished step must be published."""
        raise NotImplementedError

    def finish(self) -> None:
        """Training is done: write the last progress; the program then ends as it likes, with 0."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush, restore the signal handlers; an error is written to the progress."""


__all__ = ["Session", "contract"]
