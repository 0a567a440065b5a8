"""What compiling a job needs to know of the world; found out before, so that compiling is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ENGINE_PROGRAM = "nemo-engine:"
"""A word of a step's command or config that begins so, and goes on with an engine's name, is the engine's
interpreter: it is found when the step starts, where the step runs."""
PYTHON_PROGRAM = "nemo-python"
"""The same for the interpreter that has this package."""


def engine_program(name: str) -> str:
    """The interpreter of an engine, wherever a step will run."""
    return f"{ENGINE_PROGRAM}{name}"


@dataclass(frozen=True, slots=True)
class InputSource:
    """Where a model or data are, as the download step gets it."""

    kind: Literal["fileset", "path", "hub", "benchmark"]
    place: str
    """Address of the fileset's folder, path on this machine, name at the hub, or of a benchmark."""
    shown: str
    """As people say it: ``workspace/name``, a path, ``hf://owner/name``."""
    files: tuple[str, ...] | None = None
    """Files of a folder, when they could be listed."""
    base: str | None = None
    """For an adapter: what it is attached to."""

    def to_json(self) -> dict[str, Any]:
        """For the step's config."""
        return {"kind": self.kind, "place": self.place, "shown": self.shown}


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine that will train."""

    name: str
    python: str
    environment: Mapping[str, str]
    """Variables of its processes."""
    digest: str | None = None
    """What distinguishes its environment from others."""


@dataclass(frozen=True, slots=True)
class TrainingMachine:
    """What a training step gets where the executor of its profile runs it."""

    device: Literal["cpu", "cuda"]
    gpus: int | None = 0
    """Of each node; `None`: not known before the start."""
    nodes: int = 1
    """Nodes that the executor of its profile gives one step."""

    def situations(self) -> dict[str, bool]:
        """Where rules hold or do not, as `nemo_helix_server.customizer.support.Rule.on` names it."""
        return {"any": True, "cpu": self.device == "cpu", "one node": self.nodes == 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFacts:
    """Everything that is known when a job is compiled."""

    machine: TrainingMachine
    engine: EngineFacts
    model: InputSource
    dataset: InputSource
    adapter: InputSource | None = None
    """An adapter of the model, which is trained on."""
    beside: tuple[InputSource, ...] = ()
    """More data sets, in the order in which the input names them."""
    validation: InputSource | None = None
    environment: InputSource | None = None
    evaluation: InputSource | None = None
    """The benchmark that checkpoints are asked."""
    rewards: Mapping[str, Any] | None = None
    """The benchmark of the environment, for GRPO."""
    trusted: bool = True
    """Whether the caller may run code of their own as the service's user."""
    workspace: str = "default"
    job_name: str = "job"
    digits: str = "000000000000"
    files_root: str = ""
    pause_deadline_seconds: int = 1800
    staleness_timeout_seconds: int = 0
    checkpoint_max_overhead: float = 0.02
    options: Mapping[str, Any] = field(default_factory=dict)
    providers: tuple[str, ...] = ()
    """Those that have a profile of the name which the input gives."""

    @property
    def validates(self) -> bool:
        """Whether there are rows to validate with, given or in the dataset."""
        return self.validation is not None or self.validation_file is not None

    @property
    def validation_file(self) -> str | None:
        """The file of validation rows beside the training ones in a dataset's folder."""
        names = self.dataset.files or ()
        return next((name for name in VALIDATION_FILES if name in names), None)


VALIDATION_FILES = ("validation.jsonl", "val.jsonl")
