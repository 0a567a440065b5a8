"""The input spec of the backend ``unsloth``: supervised fine-tuning with Unsloth on one device."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from nemo_helix_plugin.body_problems import several
from nemo_helix_plugin.customization.types.during import BestCheckpoint, CheckpointEvaluation, EarlyStopping
from nemo_helix_plugin.customization.types.parts import (
    Count,
    DeploymentConfig,
    Integrations,
    Modules,
    Output,
    Positive,
    ProgressReporting,
    Reference,
    Seed,
    Share,
    Text,
)
from nemo_helix_plugin.customization.types.rows import RowsPolicy
from nemo_helix_plugin.jobs.models import RequestModel

TARGET_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class UnslothModel(RequestModel):
    """The model, and how it is loaded."""

    name: Reference
    max_seq_length: Positive = 2048
    load_in_4bit: bool = True
    load_in_8bit: bool = False
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    trust_remote_code: bool = False
    device_map: Text | None = None
    rope_scaling: dict[str, JsonValue] | None = None


class UnslothDataset(RequestModel):
    """The rows to learn from."""

    path: Reference
    text_field: Text = "text"
    apply_chat_template: bool = False
    validation_path: Reference | None = None
    packing: bool = False


class UnslothLora(RequestModel):
    """Low-rank adapters."""

    rank: Positive = 16
    alpha: Positive = 16
    dropout: Share = 0.0
    target_modules: Modules = Field(default_factory=lambda: list(TARGET_MODULES))
    bias: Literal["none", "all", "lora_only"] = "none"
    use_rslora: bool = False
    use_dora: bool = False
    random_state: Seed = 3407
    loftq_config: dict[str, JsonValue] | None = None
    modules_to_save: list[Text] | None = None
    layers_to_transform: list[Count] | None = None
    layer_replication: list[tuple[Count, Count]] | None = None
    init_lora_weights: bool | Text = True


class UnslothTraining(RequestModel):
    """What is trained, and how."""

    training_type: Literal["sft"] = "sft"
    finetuning_type: Literal["lora", "all_weights"] = "lora"
    use_gradient_checkpointing: Literal["unsloth", "true", "false"] = "unsloth"
    execution_profile: Text | None = None
    lora: UnslothLora | None = None


class UnslothSchedule(RequestModel):
    """How long, and when to look and to save."""

    epochs: Positive = 1
    max_steps: Positive | None = None
    """Wins over ``epochs``."""
    warmup_steps: Count = 0
    warmup_ratio: Share | None = None
    lr_scheduler_type: Text = "linear"
    lr_scheduler_kwargs: dict[str, JsonValue] | None = None
    logging_steps: Positive = 1
    save_steps: Positive | None = None
    eval_steps: Positive | None = None
    seed: Seed = 3407
    progress_reporting: ProgressReporting = Field(default_factory=ProgressReporting)


class UnslothBatch(RequestModel):
    """How many rows make a step."""

    per_device_train_batch_size: Positive = 1
    gradient_accumulation_steps: Positive = 1


class UnslothOptimizer(RequestModel):
    """The optimizer and its numbers."""

    learning_rate: Annotated[float, Field(gt=0)] = 2e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    optim: Literal["adamw_8bit", "adamw_torch", "adamw_torch_fused", "paged_adamw_8bit", "sgd"] = "adamw_8bit"
    adam_beta1: Share = 0.9
    adam_beta2: Share = 0.999
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-8
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    label_smoothing_factor: Share = 0.0
    neftune_noise_alpha: Annotated[float, Field(ge=0)] | None = None


class UnslothHardware(RequestModel):
    """Devices and number format."""

    gpus: Positive | None = None
    precision: Literal["bf16", "fp16"] | None = None


class UnslothOutput(Output):
    """What the trained model is called, and what is written of it."""

    save_method: Literal["lora", "merged_16bit", "merged_4bit"] = "lora"


class UnslothJobInput(RequestModel):
    """One fine-tuning job of the backend ``unsloth``."""

    name: Text | None = None
    model: UnslothModel
    dataset: UnslothDataset
    training: UnslothTraining = Field(default_factory=UnslothTraining)
    schedule: UnslothSchedule = Field(default_factory=UnslothSchedule)
    batch: UnslothBatch = Field(default_factory=UnslothBatch)
    optimizer: UnslothOptimizer = Field(default_factory=UnslothOptimizer)
    hardware: UnslothHardware = Field(default_factory=UnslothHardware)
    early_stopping: EarlyStopping | None = None
    best_checkpoint: BestCheckpoint | None = None
    eval: CheckpointEvaluation | None = None
    output: UnslothOutput | None = None
    rows: RowsPolicy = Field(default_factory=RowsPolicy)
    integrations: Integrations | None = None
    deployment_config: DeploymentConfig | None = None

    @model_validator(mode="after")
    def _whole_weights_are_not_quantised(self) -> UnslothJobInput:
        problems, given = [], self.model.model_fields_set
        if self.model.load_in_4bit and self.model.load_in_8bit and "load_in_4bit" in given:
            problems.append("model.load_in_4bit and model.load_in_8bit cannot both be true: choose one")
        if self.training.finetuning_type == "all_weights":
            problems += [
                f"model.{name} must be false for training.finetuning_type all_weights"
                for name in ("load_in_4bit", "load_in_8bit")
                if getattr(self.model, name) and name in given
            ]
        if problems:
            raise several(problems)
        return self
