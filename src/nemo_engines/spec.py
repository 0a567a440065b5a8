"""The engine spec: the only definition of what a training run is told. The customizer writes it as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nemo_engines import fields
from nemo_engines.errors import BadSpecError

Method = Literal["sft", "dpo", "grpo"]


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters beside frozen weights."""

    rank: int = 16
    alpha: float = 32
    dropout: float = 0.0
    target_modules: tuple[str, ...] | None = None
    """``None``: what the library chooses for this architecture; all linear layers where it knows none."""
    exclude_modules: tuple[str, ...] | None = None
    bias: Literal["none", "all", "lora_only"] = "none"
    use_rslora: bool = False
    use_dora: bool = False
    modules_to_save: tuple[str, ...] | None = None
    layers_to_transform: tuple[int, ...] | None = None
    init_lora_weights: bool = True
    random_state: int | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long, and how the learning rate moves."""

    max_steps: int | None = None
    """Optimizer steps; wins over ``epochs``."""
    epochs: float = 1.0
    warmup_steps: int = 0
    warmup_ratio: float | None = None
    lr_scheduler: Literal[
        "linear", "cosine", "constant", "constant_with_warmup", "cosine_with_min_lr", "polynomial"
    ] = "linear"
    lr_scheduler_options: dict[str, Any] | None = None
    eval_steps: int | None = None
    """Validate every so many steps; ``None`` with validation data: at the end of the training only."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one optimizer step = per_device x gradient_accumulation x devices."""

    per_device: int = 1
    gradient_accumulation: int = 1
    packing: bool = False


@dataclass(frozen=True, slots=True)
class Optimizer:
    """The optimizer and its numbers."""

    name: Literal["adamw_torch", "adamw_torch_fused", "adamw_8bit", "paged_adamw_8bit", "sgd"] = "adamw_torch"
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    max_grad_norm: float = 1.0
    label_smoothing: float = 0.0
    neftune_noise_alpha: float | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """How rows become text. The files are JSON Lines."""

    format: Literal["auto", "chat", "prompt_completion", "text"] = "auto"
    """For SFT: ``auto`` looks at the first row."""
    text_field: str = "text"
    prompt_template: str | None = None
    """A text with ``{field}`` places; the last place is what the model learns to write."""
    assistant_only_loss: bool = False
    shuffle: bool = True


@dataclass(frozen=True, slots=True)
class Dpo:
    """Direct preference optimization."""

    beta: float = 0.1
    preference_loss_weight: float = 1.0
    sft_loss_weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Grpo:
    """Group relative policy optimization. One generation cycle is what a pause waits for."""

    num_generations: int = 8
    prompts_per_step: int | None = None
    """``None``: as many as the batch holds."""
    steps_per_generation: int | None = None
    """Micro-batches that one generation feeds; ``None``: one optimizer step's."""
    num_iterations: int = 1
    max_new_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    kl_penalty: float = 0.0
    clip_min: float = 0.2
    clip_max: float = 0.28
    clip_c: float | None = None
    normalize_rewards: bool = True
    mask_truncated: bool = False
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = "dapo"


@dataclass(frozen=True, slots=True)
class Devices:
    """What the run may use. ``count`` processes on this machine, each with one GPU or with a share of the
    CPU."""

    count: int = 1
    nodes: int = 1
    kind: Literal["auto", "cpu", "cuda"] = "auto"


@dataclass(frozen=True, slots=True)
class Save:
    """When checkpoints are published besides those of pauses and of the end, and how many are kept."""

    steps: int | None = None
    seconds: float = 900.0
    keep: int = 2
    best_metric: str | None = None
    """Name of a metric as it is reported (``val_loss``); the checkpoint that is best by it is kept too."""
    best_is: Literal["lowest", "highest"] = "lowest"
    output: Literal["last", "best"] = "last"
    """Which weights become the trained model; ``best`` needs ``best_metric``."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One training run."""

    engine: Literal["trl", "unsloth", "automodel"]
    method: Method
    model: str
    """Folder of a model in the Hugging Face layout."""
    dataset: str
    """JSON Lines file, or a folder that has ``train.jsonl`` or a single one."""
    output: str
    """Folder for the trained model; it appears when the training is done."""
    schema: Literal[1] = 1
    validation: str | None = None
    finetuning: Literal["full", "lora"] = "lora"
    output_method: Literal["default", "merged"] = "default"
    """``default``: the adapter for LoRA and the whole model otherwise; ``merged``: adapter and base in
    one."""
    lora: Lora = field(default_factory=Lora)
    schedule: Schedule = field(default_factory=Schedule)
    batch: Batch = field(default_factory=Batch)
    optimizer: Optimizer = field(default_factory=Optimizer)
    data: Data = field(default_factory=Data)
    dpo: Dpo = field(default_factory=Dpo)
    grpo: Grpo = field(default_factory=Grpo)
    devices: Devices = field(default_factory=Devices)
    save: Save = field(default_factory=Save)
    rewards: dict[str, Any] | None = None
    """The ``benchmark`` part of a gym config (``prompt`` and ``verifier`` are read), for GRPO."""
    precision: Literal["bf16", "fp16", "fp32"] | None = None
    """``None``: bf16 on GPUs that have it, fp32 on the CPU."""
    max_seq_length: int = 2048
    seed: int = 42
    activation_checkpointing: bool = False
    attn_implementation: Literal["sdpa", "eager", "flash_attention_2"] | None = None
    trust_remote_code: bool = False
    load_in_4bit: bool = False
    load_in_8bit: bool = False
    backend: str | None = None
    """What progress calls the backend; ``None``: the engine's name."""
    trackers: dict[str, Any] = field(default_factory=dict)
    """Ids only, for the record: the service publishes."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Options of one engine alone; its driver refuses names that it does not know."""


IRRELEVANT = frozenset({"backend", "output", "output_method", "save", "trackers", "schema", "devices"})
"""Parts that may change between two runs of a job without making the result another one."""

POSITIVE = (
    "schedule.max_steps",
    "schedule.epochs",
    "schedule.eval_steps",
    "batch.per_device",
    "batch.gradient_accumulation",
    "grpo.steps_per_generation",
    "grpo.num_iterations",
    "grpo.max_new_tokens",
    "grpo.prompts_per_step",
    "lora.rank",
    "devices.count",
    "devices.nodes",
    "save.steps",
    "save.seconds",
    "max_seq_length",
)


def read_spec(path: Path) -> EngineSpec:
    """The spec in a file; `BadSpecError` says what is not right with it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSpecError(f"the engine spec {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadSpecError(f"the engine spec {path} is not JSON: {error}") from error
    return parse_spec(value)


def parse_spec(value: object) -> EngineSpec:
    """The spec in a JSON value, checked as far as it can be without the data, the model and a device."""
    spec = fields.read(EngineSpec, value)
    flat = flatten(spec)
    for name in POSITIVE:
        if flat[name] is not None and flat[name] <= 0:
            raise BadSpecError(f"{name} must be more than 0, not {flat[name]}")
    if spec.save.keep < 2:
        raise BadSpecError(f"save.keep must be at least 2, not {spec.save.keep}: the newest may be damaged")
    if spec.save.output == "best" and spec.save.best_metric is None:
        raise BadSpecError("save.output 'best' needs save.best_metric, the name of the metric to choose by")
    if spec.method == "grpo":
        _check_grpo(spec)
    if spec.finetuning == "full" and (spec.load_in_4bit or spec.load_in_8bit):
        raise BadSpecError("load_in_4bit and load_in_8bit are for LoRA: quantized weights cannot be trained")
    if spec.finetuning == "full" and spec.output_method == "merged":
        raise BadSpecError("output_method 'merged' is for LoRA: full fine-tuning has nothing to merge")
    return spec


def _check_grpo(spec: EngineSpec) -> None:
    if spec.rewards is None:
        raise BadSpecError("rewards is missing: GRPO needs the benchmark whose verifier grades the answers")
    if spec.grpo.num_generations < 2:
        raise BadSpecError("grpo.num_generations must be at least 2: answers are compared with each other")
    rows = spec.batch.per_device * spec.batch.gradient_accumulation * spec.devices.count * spec.devices.nodes
    generated = (
        rows
        if spec.grpo.steps_per_generation is None
        else (rows // spec.batch.gradient_accumulation * spec.grpo.steps_per_generation)
    )
    if generated % spec.grpo.num_generations:
        raise BadSpecError(
            f"one generation makes {generated} answers, which grpo.num_generations = "
            f"{spec.grpo.num_generations} does not divide"
        )
    if (
        spec.grpo.prompts_per_step is not None
        and spec.grpo.prompts_per_step * spec.grpo.num_generations != rows
    ):
        raise BadSpecError(
            f"grpo.prompts_per_step x grpo.num_generations must be the {rows} rows of an optimizer step"
        )


def flatten(value: Any, where: str = "") -> dict[str, Any]:
    """Dotted path → value of every field; objects of free form count as one value."""
    flat: dict[str, Any] = {}
    for name, part in _parts(value):
        path = f"{where}.{name}" if where else name
        if dataclasses.is_dataclass(part):
            flat.update(flatten(part, path))
        else:
            flat[path] = part
    return flat


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    return ((part.name, getattr(value, part.name)) for part in dataclasses.fields(value))


def boundary(spec: EngineSpec) -> int:
    """Optimizer steps between two points where training can stop exactly: one generation cycle of GRPO."""
    if spec.method != "grpo":
        return 1
    accumulation = spec.batch.gradient_accumulation
    cycle = (spec.grpo.steps_per_generation or accumulation) * spec.grpo.num_iterations
    return math.lcm(accumulation, cycle) // accumulation


def settings(spec: EngineSpec) -> Mapping[str, str]:
    """What of the spec decides the result, as text by dotted path: compared before a run goes on."""
    unused = {"sft": ("dpo", "grpo", "rewards"), "dpo": ("grpo", "rewards"), "grpo": ("dpo",)}[spec.method]
    left_out = {*IRRELEVANT, *unused, *(("lora",) if spec.finetuning == "full" else ())}
    paths = {"model", "dataset", "validation"}
    return {
        name: json.dumps(value, sort_keys=True)
        for name, value in flatten(spec).items()
        if name.split(".")[0] not in left_out and name not in paths
    }
