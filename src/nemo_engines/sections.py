"""The sections of the engine spec, see `nemo_engines.spec`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


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
class MoreTrainingData:
    """Training data beside those of ``dataset``."""

    dataset: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Data:
    """How rows become text. The files are JSON Lines."""

    format: Literal["auto", "chat", "prompt_completion", "text"] = "auto"
    """For SFT: ``auto`` looks at the first row."""
    text_field: str = "text"
    prompt_template: str | None = None
    """A text with ``{field}`` places; the last place is what the model learns to write."""
    assistant_only_loss: bool = False
    learned_turns: Literal["all", "assistant", "last"] | None = None
    """Of conversations: all of the text, the assistant's messages, or its last one; ``None``: what is usual
    with the engine, or the assistant's with ``assistant_only_loss``."""
    overlong: Literal["truncate", "drop", "error"] = "truncate"
    """What becomes of rows beyond ``max_seq_length``."""
    chat_template: str | None = None
    """A Jinja template in the place of the tokenizer's own; the trained model gets it, too."""
    shuffle: bool = True
    weight: float = 1.0
    """How often each row of ``dataset`` comes in an epoch; see `nemo_engines.data.mixing`."""
    beside: tuple[MoreTrainingData, ...] | None = None
    """More training data."""


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
    interval: Literal["auto"] | None = None
    """``auto``: the seconds are chosen while training, see `nemo_trainer.save_intervals`."""
    max_overhead: float | None = None
    """The share of the time that saves may take at most, where the seconds are chosen."""
    keep: int = 2
    best_metric: str | None = None
    """Name of a metric as it is reported (``val_loss``); the checkpoint that is best by it is kept too."""
    best_is: Literal["lowest", "highest"] = "lowest"
    output: Literal["last", "best"] = "last"
    """Which weights become the trained model; ``best`` needs ``best_metric``."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What checkpoints are asked while the training runs: a benchmark, fixed prompts, or both."""

    every: int
    """Steps; the last step is evaluated too."""
    name: str | None = None
    """Of the benchmark."""
    metric: str | None = None
    """What its score is called among the metrics: ``eval_arithmetic``."""
    folder: str | None = None
    """The folder with the benchmark and its rows, see `nemo_gym.rollouts.data.for_training`."""
    prompts: tuple[str, ...] = ()
    """Asked each time, so that their answers can be read side by side."""
    device: str = "same"
    """``same``: that of the training, which waits; or another one, as torch names it: ``cpu``, ``cuda:1``."""
    batch_size: int = 8
    """Questions that are answered at once."""
    max_new_tokens: int = 256
    """Tokens of an answer, where the benchmark does not say it."""


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """When training ends before its last step: a metric of evaluations no longer gets better."""

    metric: str | None = None
    """Name of a metric as it is reported (``val_loss``); ``None``: training goes on to its last step."""
    best_is: Literal["lowest", "highest"] = "lowest"
    patience: int = 3
    """Evaluations in a row that are not better than the best before them."""
    min_change: float = 0.0
    """An evaluation is better when it is so by more than this."""
