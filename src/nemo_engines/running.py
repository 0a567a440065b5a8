"""One training run, as a driver gets it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from nemo_engines.data import learned
from nemo_engines.data.chat_templates import TemplateWriter
from nemo_engines.data.learned import Cut, Pair, Tokens
from nemo_engines.data.rows import Row
from nemo_engines.errors import TrainerError
from nemo_engines.rewards import Rewards
from nemo_engines.spec import EngineSpec
from nemo_trainer.contract import EXIT_PAUSED, Checkpoint
from nemo_trainer.session import Session


@dataclass(frozen=True, slots=True)
class World:
    """The processes of this training, of which this is one."""

    rank: int = 0
    local_rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes and talks."""
        return self.rank == 0


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What a driver works with."""

    spec: EngineSpec
    session: Session
    world: World
    rows: list[dict[str, Any]]
    """The training rows, checked."""
    validation_rows: list[dict[str, Any]] | None
    checkpoint: Checkpoint | None
    """What to go on from; verified. ``None``: from the beginning."""
    work: Path
    """A folder for the library's own files, on the disk of the checkpoints."""
    staging: Path
    """Where the driver leaves the trained model; an empty folder."""
    device: Literal["cpu", "cuda"]
    precision: Literal["bf16", "fp16", "fp32"]
    rewards: Rewards | None = None
    """For GRPO."""
    warned: list[str] = field(default_factory=list)
    """What `warn` was given."""

    def warn(self, sentence: str) -> None:
        """Say something about the data in the log and in the job's details; the training goes on."""
        if self.world.leads and sentence not in self.warned:
            self.warned.append(sentence)
            sys.stderr.write(f"warning: {sentence}\n")
            self.session.progress(warnings=list(self.warned))

    def warn_of_cut(self, part: str, rows: Sequence[Row], cut: Cut) -> None:
        """Warn of rows that are too long; raises `TrainerError` where the spec says that none may be."""
        for sentence in learned.cut_warnings(self.spec, part, rows, cut):
            self.warn(sentence)

    def warn_of_template(
        self, writer: TemplateWriter, part: str, rows: Sequence[Row], found: Sequence[Tokens | Pair]
    ) -> None:
        """Warn of what the rows say and the model's chat template does not write."""
        if self.world.leads:
            for sentence in learned.template_warnings(writer, rows, found):
                self.warn(f"{part} rows: {sentence}")

    def leave(self) -> NoReturn:
        """End this process as it is wanted: paused, or stopped; what there is to save is published."""
        if self.world.leads and self.session.wanted() == "stop":
            raise TrainerError("training was stopped on request while a checkpoint was evaluated")
        self.leave_paused()

    def leave_paused(self) -> NoReturn:
        """End this process as paused, at once: the checkpoint is published, and every rank does the same."""
        if self.world.leads:
            self.session.paused()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(EXIT_PAUSED)
