"""What a backend is to the service: one value that its folder exports as ``BACKEND``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.customization.backends import BackendDescription
from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule, SupportTable

ResolvedSpec = dict[str, Any]


def _training(_engine_spec: Mapping[str, Any]) -> str:
    return "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """How an input spec becomes a training; its functions are pure."""

    description: BackendDescription
    """What clients know of it."""
    engine: str
    """The engine that trains: its name in the settings and for `nemo engines`."""
    tables: tuple[SupportTable, ...]
    """Which fields it supports and which it refuses, for each kind of job that it has."""
    rules: Callable[[Any, CompileFacts], Iterable[Rule]]
    """The rules that hold for an input in a situation; raises `InvalidError` for what cannot be a rule."""
    resolve: Callable[[ResolvedSpec, CompileFacts], None]
    """Fills in what an input leaves open: the spec becomes the one that is stored.

    It puts ``checkpoints`` there too, see `shared.checkpoints`.
    """
    engine_spec: Callable[[Mapping[str, Any], CompileFacts], dict[str, Any]]
    """The engine's input, made of the stored spec: JSON that the trainer finds in the step's configuration.

    Of it compiling reads ``method``, ``finetuning`` (``lora`` makes an adapter, unless ``output_method`` is
    ``merged``), ``devices.count`` (GPUs of each node of the training step; 1 by default) and
    ``devices.nodes`` (1 by default).
    """
    training_step: Callable[[Mapping[str, Any]], str] = _training
    """The name of the training step, of the engine spec."""
    trainer: str = "nemo_engines.run"
    """The module that trains, run as ``python -P -m`` in the engine's interpreter."""
    previewer: str | None = "nemo_engines.preview"
    """The module that shows what would be learned, run in the same way; ``None``: it shows nothing."""
    estimator: str | None = None
    """The module that checks a training and says what it will take, run as ``nemo_engines.dry_run`` is;
    ``None``: nothing is known before the start."""
    pause_deadline_seconds: int = 1800
    """The default of its setting: how long a pause of training may take."""
    staleness_timeout_seconds: int = 0
    """The default of its setting: training that reports nothing for so long ends in error; 0 = never."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.description.name
