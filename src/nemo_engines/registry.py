"""The engines: which driver trains what. A driver's module is imported only when its engine is asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from nemo_engines.errors import BadSpecError, EngineUnavailableError
from nemo_engines.spec import EngineSpec, flatten

if TYPE_CHECKING:
    from nemo_engines.data.chat_templates import TemplateWriter
    from nemo_engines.running import TrainingRun


class Driver(Protocol):
    """How one library is driven.

    It is built without arguments, in the engine's own interpreter, after the spec and the data were found in
    order and the checkpoint to go on from was verified. Importing its module may take as long as the
    library does.
    """

    def train(self, run: TrainingRun) -> None:
        """Train until done, or leave through ``run.session.paused()`` at a step boundary after publishing.

        Publishes every checkpoint through ``run.publish`` and reports through ``run.session``; raises
        `nemo_engines.errors.TrainerError` for what it understands. Returns when the trained model is in
        ``run.staging`` (the caller moves it to the spec's ``output``).
        """
        ...

    def writer(self, spec: EngineSpec) -> tuple[TemplateWriter, Any]:
        """What writes the rows of a run as tokens, and the tokenizer that it writes with, without weights.

        Raises `TrainerError` for a model of which it is known that its training could not end well.
        """
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine can do, known without importing it."""

    name: str
    driver: str
    """``module:Class`` of its `Driver`."""
    methods: frozenset[str]
    packages: tuple[str, ...]
    """Distributions whose versions are recorded in each manifest."""
    lacks: tuple[str, ...] = ()
    """Paths of the spec that it does not support, alone or as ``path=value``; refused when they are set."""
    cpu: bool = True
    """Whether it trains on a machine without a GPU."""


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            name="trl",
            driver="nemo_engines.hf.driver:TrlDriver",
            methods=frozenset({"sft", "dpo", "grpo"}),
            packages=("torch", "transformers", "trl", "peft", "accelerate", "datasets"),
            lacks=(
                "extra",
                "load_in_4bit",
                "load_in_8bit",
                "lora.random_state",
                "optimizer.name=adamw_8bit",
                "optimizer.name=paged_adamw_8bit",
            ),
        ),
        Engine(
            name="unsloth",
            driver="nemo_engines.hf.unsloth:UnslothDriver",
            methods=frozenset({"sft"}),
            packages=("torch", "transformers", "trl", "peft", "accelerate", "datasets", "unsloth"),
            lacks=("adapter",),
        ),
        Engine(
            name="automodel",
            driver="nemo_engines.automodel.driver:AutomodelDriver",
            methods=frozenset({"sft"}),
            packages=("torch", "transformers", "nemo-automodel", "datasets", "torchdata"),
            lacks=(
                "adapter",
                "extra",
                "load_in_4bit",
                "load_in_8bit",
                "batch.packing",
                "optimizer.name=adamw_8bit",
                "optimizer.name=paged_adamw_8bit",
                "optimizer.label_smoothing",
                "optimizer.neftune_noise_alpha",
                "lora.bias=all",
                "lora.bias=lora_only",
                "lora.use_rslora",
                "lora.modules_to_save",
                "lora.layers_to_transform",
                "lora.init_lora_weights=False",
                "lora.random_state",
            ),
        ),
    )
}


def engine_for(spec: EngineSpec) -> Engine:
    """The engine of a spec; `BadSpecError` when there is none of that name or it does not know the method."""
    if spec.engine not in ENGINES:
        raise BadSpecError(f"engine must be one of {', '.join(ENGINES)}, not '{spec.engine}'")
    engine = ENGINES[spec.engine]
    if spec.method not in engine.methods:
        known = ", ".join(sorted(engine.methods))
        raise BadSpecError(f"method '{spec.method}' is not one that engine '{engine.name}' knows: {known}")
    for path in engine.lacks:
        _refuse(spec, engine, path)
    return engine


def _refuse(spec: EngineSpec, engine: Engine, lacking: str) -> None:
    path, _, value = lacking.partition("=")
    given = flatten(spec)[path]
    if (str(given) == value) if value else given:
        shown = f"{path} '{given}'" if value else path
        raise BadSpecError(f"{shown} is not supported by engine '{engine.name}': leave it out")


def load_driver(engine: Engine) -> Driver:
    """Import the driver, and with it the library; `EngineUnavailableError` says what is missing."""
    module, _, name = engine.driver.partition(":")
    try:
        cls = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise EngineUnavailableError(
            f"engine '{engine.name}' cannot be loaded: {error}; try `nemo engines install {engine.name}`"
        ) from error
    return cast("Driver", cls())
