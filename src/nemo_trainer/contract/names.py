"""The public names of the contract: exit codes, environment variables, files."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

EXIT_DONE = 0
"""Training has finished."""
EXIT_BAD_SPEC = 2
"""The specification cannot be carried out; trying again cannot help."""
EXIT_ENGINE_UNAVAILABLE = 3
"""The training library is not usable here; the last line says why and what to install."""
EXIT_CHECKPOINT_UNUSABLE = 4
"""The checkpoint that was named is damaged, or does not fit the inputs."""
EXIT_DIVERGED = 5
"""The loss is no longer a finite number."""
EXIT_PAUSED = 75
"""A checkpoint of the last finished step is published; the same command goes on from it."""

INPUTS_CHANGED = "InputsChangedError"
"""``error_type`` in ``progress.json`` of a start whose checkpoint belongs to other inputs."""

JOB = "NEMO_JOB_ID"
"""The id of the job, which stays the same over all of its attempts."""
ATTEMPT = "NEMO_JOB_ATTEMPT_ID"
"""The id of this attempt at the job."""
STEP = "NEMO_JOB_STEP"
"""The name of the step."""
TASK = "NEMO_JOB_TASK"
"""The name of this start of the step."""
WORKSPACE = "NEMO_JOB_WORKSPACE"
"""The workspace of the job."""
CONTROL_FILE = "NEMO_JOB_CONTROL_FILE"
"""The file that asks a training to save, pause or stop, see `nemo_trainer.contract.control`."""
TRAINER_PATH = "NEMO_JOB_TRAINER_PATH"
"""The folder of the step's training, which all attempts share: `TrainerPaths.folder`."""
CHECKPOINT = "NEMO_JOB_CHECKPOINT"
"""The folder of the checkpoint that was chosen to start from; unset: the newest that is whole."""
CONFIG_FILE = "NEMO_JOB_STEP_CONFIG_FILE_PATH"
"""The file with the step's configuration, JSON."""
STORAGE = "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"
"""The folder whose files stay for later attempts and steps of the job."""
SCRATCH = "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"
"""The folder of this start alone; it is deleted after the start."""
JOBS_URL = "NHX_JOBS_URL"
"""The address of the Jobs service, as this step reaches it."""
BASE_URL = "NHX_BASE_URL"
"""The same, under the name that clients read."""
ACCESS_TOKEN = "NHX_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
"""The token with which the step asks the service; unset where none is needed."""
ENDS_AT = "NEMO_JOB_ENDS_AT"
"""When the time of this start is over, in seconds since the epoch; `ALLOCATION_FILE` outranks it."""
ALLOCATION_FILE = "NEMO_JOB_ALLOCATION_FILE"
"""The file that says the same, see `nemo_trainer.contract.allocation`; it may change while training runs."""
END_SIGNAL = "NEMO_JOB_END_SIGNAL"
"""The signal that announces the end: ``USR1`` or ``TERM``; without it SIGUSR1 means to look, and no more."""
BETWEEN_INTERRUPTIONS = "NEMO_JOB_SECONDS_BETWEEN_INTERRUPTIONS"
"""The mean time in seconds after which a start like this one is interrupted without notice, measured."""
GENERATION = "NEMO_JOB_GENERATION"
"""The number that the launcher has claimed for this start, see `nemo_trainer.contract.generations`."""
RANK = "RANK"
"""Number of this process among those of one training; only 0, or a process without it, writes."""

PRESUMED_BETWEEN_INTERRUPTIONS = 86_400.0
"""Mean seconds between interruptions without notice, where nobody has measured that: a day."""
STACKS_SIGNAL = signal.SIGUSR2
"""Every process with a session writes the stacks of its threads to standard error on it, and goes on."""

MANIFEST = "MANIFEST.json"
PINNED = "PINNED"
"""A file of this name in a checkpoint's folder keeps it from being pruned."""


@dataclass(frozen=True, slots=True)
class TrainerPaths:
    """The files of one training step, in the folder that all attempts of its job share.

    Without a generation that has names of its own: those that all others write to. Readers ask
    `nemo_trainer.contract.generations.newest_file` which file counts.
    """

    folder: Path
    generation: int = 0
    own_names: bool = False

    @property
    def suffix(self) -> str:
        """What the names have in them of a generation that shares none: ``.g3``, or nothing."""
        return f".g{self.generation}" if self.own_names else ""

    @property
    def metrics(self) -> Path:
        """Rows that are only ever appended, see `nemo_trainer.contract.metrics`."""
        return self.folder / f"metrics{self.suffix}.jsonl"

    @property
    def progress(self) -> Path:
        """How far training is, replaced as a whole."""
        return self.folder / f"progress{self.suffix}.json"

    @property
    def checkpoints(self) -> Path:
        """One folder for each checkpoint, named by its step."""
        return self.folder / "checkpoints"

    @property
    def superseded(self) -> Path:
        """Checkpoints of a history that was left when training went on from an older one that was named."""
        return self.checkpoints / ".superseded"

    @property
    def outputs(self) -> Path:
        """What the step has produced, with digests; written when it is done."""
        return self.folder / f"OUTPUTS{self.suffix}.json"

    @property
    def writer(self) -> Path:
        """The process that writes here now, or wrote last."""
        return self.folder / "writer.json"

    @property
    def generations(self) -> Path:
        """The claims of the right to write, see `nemo_trainer.contract.generations`."""
        return self.folder / "generations"

    def checkpoint(self, step: int) -> Path:
        """The folder of the checkpoint of a step."""
        return self.checkpoints / f"{step}{self.suffix}"
