"""What a trainer and its launcher agree on; ``README.md`` of this package explains it in prose.

Import the module, not the names: ``from nemo_trainer import contract``.
"""

from nemo_trainer.contract import generations
from nemo_trainer.contract.allocation import Allocation, read_allocation, write_allocation
from nemo_trainer.contract.checkpoints import (
    Checkpoint,
    Damaged,
    Found,
    checkpoint_folder,
    list_checkpoints,
    list_superseded,
    newest_verified,
    read_checkpoint,
    sort_checkpoints,
    verify,
)
from nemo_trainer.contract.context import JobContext
from nemo_trainer.contract.control import WANTS, Control, Want, read_control, write_control
from nemo_trainer.contract.errors import (
    BadSpecError,
    CheckpointUnusableError,
    DivergedError,
    EngineUnavailableError,
    InputsChangedError,
    NotSavedError,
    NotWriterError,
    TrainerError,
)
from nemo_trainer.contract.manifest import FileEntry, Manifest, Reason, read_manifest, write_manifest
from nemo_trainer.contract.metrics import (
    ContinueRow,
    MetricRow,
    MetricTail,
    Row,
    Tailed,
    history,
    merged,
    parse_row,
)
from nemo_trainer.contract.names import (
    EXIT_BAD_SPEC,
    EXIT_CHECKPOINT_UNUSABLE,
    EXIT_DIVERGED,
    EXIT_DONE,
    EXIT_ENGINE_UNAVAILABLE,
    EXIT_PAUSED,
    MANIFEST,
    PINNED,
    PRESUMED_BETWEEN_INTERRUPTIONS,
    STACKS_SIGNAL,
    TrainerPaths,
)
from nemo_trainer.contract.outputs import Outputs, read_outputs, verify_outputs, write_outputs
from nemo_trainer.contract.progress import TRAINING_SINCE, read_progress, write_progress

__all__ = [
    "EXIT_BAD_SPEC",
    "EXIT_CHECKPOINT_UNUSABLE",
    "EXIT_DIVERGED",
    "EXIT_DONE",
    "EXIT_ENGINE_UNAVAILABLE",
    "EXIT_PAUSED",
    "MANIFEST",
    "PINNED",
    "PRESUMED_BETWEEN_INTERRUPTIONS",
    "STACKS_SIGNAL",
    "TRAINING_SINCE",
    "WANTS",
    "Allocation",
    "BadSpecError",
    "Checkpoint",
    "CheckpointUnusableError",
    "ContinueRow",
    "Control",
    "Damaged",
    "DivergedError",
    "EngineUnavailableError",
    "FileEntry",
    "Found",
    "InputsChangedError",
    "JobContext",
    "Manifest",
    "MetricRow",
    "MetricTail",
    "NotSavedError",
    "NotWriterError",
    "Outputs",
    "Reason",
    "Row",
    "Tailed",
    "TrainerError",
    "TrainerPaths",
    "Want",
    "checkpoint_folder",
    "generations",
    "history",
    "list_checkpoints",
    "list_superseded",
    "merged",
    "newest_verified",
    "parse_row",
    "read_allocation",
    "read_checkpoint",
    "read_control",
    "read_manifest",
    "read_outputs",
    "read_progress",
    "sort_checkpoints",
    "verify",
    "verify_outputs",
    "write_allocation",
    "write_control",
    "write_manifest",
    "write_outputs",
    "write_progress",
]
