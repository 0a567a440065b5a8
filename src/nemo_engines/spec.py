"""The engine spec: the only definition of the input of a training run. The customizer writes it as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nemo_engines import fields
from nemo_engines.errors import BadSpecError
from nemo_engines.sections import (
    Batch,
    Data,
    Devices,
    Dpo,
    EarlyEnd,
    EvaluationPlan,
    Grpo,
    Lora,
    Optimizer,
    Save,
    Schedule,
)

Method = Literal["sft", "dpo", "grpo"]


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One training run."""

    engine: str
    """A name of `nemo_engines.registry`."""
    method: Method
    model: str
    """Folder of a model in the Hugging Face layout."""
    dataset: str
    """JSON Lines file, or a folder that has ``train.jsonl`` or a single one."""
    output: str
    """Folder for the trained model; it appears when the training is done."""
    schema: Literal[1] = 1
    validation: str | None = None
    adapter: str | None = None
    """Folder of an adapter of the model, in the layout of peft: it is trained on, and what it is at the start
    is the reference of DPO."""
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
    early_stopping: EarlyEnd = field(default_factory=EarlyEnd)
    evaluation: EvaluationPlan | None = None
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


IRRELEVANT = frozenset(
    {"backend", "output", "output_method", "save", "trackers", "schema", "devices", "evaluation"}
)
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
    "early_stopping.patience",
    "max_seq_length",
    "data.weight",
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
    for number, source in enumerate(spec.data.beside or ()):
        if source.weight <= 0:
            raise BadSpecError(f"data.beside[{number}].weight must be more than 0, not {source.weight}")
    if spec.save.keep < 2:
        raise BadSpecError(f"save.keep must be at least 2, not {spec.save.keep}: the newest may be damaged")
    if spec.save.max_overhead is not None and not 0 < spec.save.max_overhead <= 0.5:
        raise BadSpecError(f"save.max_overhead must be in (0, 0.5], not {spec.save.max_overhead}")
    if spec.save.output == "best" and spec.save.best_metric is None:
        raise BadSpecError("save.output 'best' needs save.best_metric, the name of the metric to choose by")
    if spec.early_stopping.min_change < 0:
        raise BadSpecError(
            f"early_stopping.min_change must be 0 or more, not {spec.early_stopping.min_change}"
        )
    if spec.schedule.warmup_steps and spec.schedule.warmup_ratio:
        raise BadSpecError("schedule.warmup_steps and schedule.warmup_ratio cannot both be given: choose one")
    if spec.evaluation is not None:
        _check_evaluation(spec.evaluation)
    if spec.method == "grpo":
        _check_grpo(spec)
    _check_finetuning(spec)
    return spec


def _check_finetuning(spec: EngineSpec) -> None:
    if spec.finetuning == "full" and (spec.load_in_4bit or spec.load_in_8bit):
        raise BadSpecError("load_in_4bit and load_in_8bit are for LoRA: quantized weights cannot be trained")
    if spec.adapter is not None and (spec.method != "dpo" or spec.finetuning != "lora"):
        raise BadSpecError("adapter is for DPO that trains an adapter: only that goes on with one")
    if spec.finetuning == "full" and spec.output_method == "merged":
        raise BadSpecError("output_method 'merged' is for LoRA: full fine-tuning has nothing to merge")


def _check_evaluation(plan: EvaluationPlan) -> None:
    for name in ("every", "batch_size", "max_new_tokens"):
        if getattr(plan, name) <= 0:
            raise BadSpecError(f"evaluation.{name} must be more than 0, not {getattr(plan, name)}")
    if len({plan.folder is None, plan.name is None, plan.metric is None}) > 1:
        raise BadSpecError("evaluation.name, metric and folder are given together: a benchmark has them all")
    if plan.metric is not None and not plan.metric.startswith("eval_"):
        raise BadSpecError(f"evaluation.metric must begin with eval_, not {plan.metric!r}")
    if plan.folder is None and not plan.prompts:
        raise BadSpecError("evaluation asks nothing: give a benchmark, or prompts")
    if not re.fullmatch(r"same|cpu|cuda(:\d+)?", plan.device):
        raise BadSpecError(f"evaluation.device must be same, cpu or cuda:NUMBER, not '{plan.device}'")


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
    paths = {"model", "dataset", "validation", "adapter"}
    return {
        name: _as_text(name, value)
        for name, value in flatten(spec).items()
        if name.split(".")[0] not in left_out and name not in paths
    }


def answers_only(spec: EngineSpec) -> bool:
    """Whether of conversations only messages of the assistant are learned."""
    if spec.data.learned_turns is not None:
        return spec.data.learned_turns != "all"
    return spec.data.assistant_only_loss or spec.engine == "automodel"


def _as_text(name: str, value: Any) -> str:
    """A value that people can compare; of a chat template a digest."""
    if name == "data.chat_template" and value is not None:
        return f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"
    if name == "data.beside" and value is not None:  # what they hold is compared as the training data
        return json.dumps([source.weight for source in value])
    return json.dumps(value, sort_keys=True)
