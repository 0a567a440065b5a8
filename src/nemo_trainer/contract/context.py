"""What a trainer knows about the job that it belongs to, read from its environment."""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nemo_trainer.contract import names
from nemo_trainer.contract.errors import BadSpecError
from nemo_trainer.contract.names import TrainerPaths

_LOCAL = "local"
_END_SIGNALS = {"USR1": signal.SIGUSR1, "TERM": signal.SIGTERM}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """Identity and places of one start of a step; without a Jobs service around it, defaults."""

    trainer_path: Path
    storage: Path
    """The job's storage; the trainer path and all outputs lie in it."""
    job: str = _LOCAL
    attempt: str = _LOCAL
    step_name: str = "training"
    task: str = _LOCAL
    workspace: str = "default"
    control_file: Path | None = None
    checkpoint: Path | None = None
    """The folder of the checkpoint that was asked for by name."""
    config_file: Path | None = None
    scratch: Path | None = None
    jobs_url: str | None = None
    """Where the Jobs service answers, for those who have no control file."""
    access_token: str | None = None
    rank: int = 0
    ends_at: float | None = None
    """When the time of this start is over as far as was known when it began, in seconds since the epoch."""
    allocation_file: Path | None = None
    """The file with later news of that."""
    end_signal: signal.Signals | None = None
    """The signal that announces the end."""
    between_interruptions: float | None = None
    """Mean seconds until a start like this one is interrupted without notice; `None` = not measured."""
    generation: int = 0
    """The number that the launcher has claimed for this start; then, in a session, the one that it holds."""
    own_names: bool = False
    """Whether this start writes under names of its own, see `nemo_trainer.contract.generations`."""

    @property
    def paths(self) -> TrainerPaths:
        """The files in the trainer path."""
        return TrainerPaths(self.trainer_path, self.generation, self.own_names)

    def holding(self, generation: int, *, own_names: bool) -> JobContext:
        """The same start once it holds a generation."""
        return replace(self, generation=generation, own_names=own_names)

    @property
    def writes(self) -> bool:
        """Whether this is the one process of the training that writes."""
        return self.rank == 0

    @property
    def step_url(self) -> str | None:
        """The address of this step at the Jobs service; `None` when it cannot be known."""
        if self.jobs_url is None or _LOCAL in {self.job, self.task}:
            return None
        route = f"/apis/jobs/v2/workspaces/{self.workspace}/jobs/{self.job}/steps/{self.step_name}"
        return self.jobs_url.rstrip("/") + route

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, folder: Path | None = None) -> JobContext:
        """Read the environment of a step; ``folder`` (``--dir``) is the trainer path when given.

        Without either the trainer path is ``training`` in the current folder. Raises `BadSpecError` for a
        rank, a generation, a time or a signal that is none.
        """
        storage = _path(environ, names.STORAGE)
        step_name = environ.get(names.STEP) or "training"
        trainer_path = folder or _path(environ, names.TRAINER_PATH)
        if trainer_path is None:
            trainer_path = storage / step_name if storage else Path("training")
        trainer_path = trainer_path.absolute()
        if storage is None or not trainer_path.is_relative_to(storage):
            storage = trainer_path
        return cls(
            trainer_path=trainer_path,
            storage=storage,
            job=environ.get(names.JOB) or _LOCAL,
            attempt=environ.get(names.ATTEMPT) or _LOCAL,
            step_name=step_name,
            task=environ.get(names.TASK) or _LOCAL,
            workspace=environ.get(names.WORKSPACE) or "default",
            control_file=_path(environ, names.CONTROL_FILE),
            checkpoint=_path(environ, names.CHECKPOINT),
            config_file=_path(environ, names.CONFIG_FILE),
            scratch=_path(environ, names.SCRATCH),
            jobs_url=environ.get(names.JOBS_URL) or environ.get(names.BASE_URL) or None,
            access_token=environ.get(names.ACCESS_TOKEN) or None,
            rank=_number(environ, names.RANK),
            ends_at=_seconds(environ, names.ENDS_AT),
            allocation_file=_path(environ, names.ALLOCATION_FILE),
            end_signal=_end_signal(environ.get(names.END_SIGNAL) or ""),
            between_interruptions=_seconds(environ, names.BETWEEN_INTERRUPTIONS),
            generation=_number(environ, names.GENERATION),
        )


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    value = environ.get(name)
    return Path(value).absolute() if value else None


def _seconds(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(name)
    if not text:
        return None
    with contextlib.suppress(ValueError):
        value = float(text)
        if math.isfinite(value) and value > 0:
            return value
    raise BadSpecError(f"the environment variable {name} is {text!r}; it must be a number of seconds")


def _end_signal(text: str) -> signal.Signals | None:
    if text and text not in _END_SIGNALS:
        raise BadSpecError(
            f"the environment variable {names.END_SIGNAL} is {text!r}; it must be {' or '.join(_END_SIGNALS)}"
        )
    return _END_SIGNALS.get(text)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name) or "0"
    if not (text.isascii() and text.isdecimal()):
        raise BadSpecError(f"the environment variable {name} is {text!r}; it must be a whole number from 0")
    return int(text)
