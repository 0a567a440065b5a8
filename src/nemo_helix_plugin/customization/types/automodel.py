"""The input spec of the backend ``automodel``: supervised fine-tuning with NeMo Automodel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nemo_helix_plugin.body_problems import several
from nemo_helix_plugin.customization.types.during import BestCheckpoint, CheckpointEvaluation, EarlyStopping
from nemo_helix_plugin.customization.types.parts import (
    Count,
    DeploymentConfig,
    Integrations,
    Modules,
    Output,
    Parallelism,
    Positive,
    Precision,
    ProgressReporting,
    Reference,
    Seed,
    Share,
    Text,
    learning_rate_problems,
)
from nemo_helix_plugin.customization.types.rows import RowsPolicy
from nemo_helix_plugin.jobs.models import RequestModel


class AutomodelDataset(RequestModel):
    """The rows to learn from."""

    training: Reference
    validation: Reference | None = None
    prompt_template: Text | None = None
    shuffle: bool = True


class AutomodelLora(RequestModel):
    """Low-rank adapters."""

    rank: Positive = 16
    alpha: Positive = 32
    dropout: Share = 0.0
    merge: bool = False
    target_modules: Modules | None = None
    exclude_modules: list[Text] | None = None
    use_triton: bool = True
    use_memory_efficient_lora: bool | None = None

    @model_validator(mode="after")
    def _one_choice_of_modules(self) -> AutomodelLora:
        if self.target_modules and self.exclude_modules:
            raise ValueError("lora.target_modules and lora.exclude_modules cannot both be given: choose one")
        return self


class RetrievalExport(RequestModel):
    """How a retrieval model is written."""

    primary: Literal["onnx", "hf"] = "onnx"
    opset: Positive = 17
    precision: Literal["fp16", "fp32"] = "fp16"
    attn_implementation: Text = "eager"
    pooling: Text = "avg"
    normalize: bool = True
    dimensions: bool = False


class Retrieval(RequestModel):
    """Training of encoders for retrieval."""

    train_n_passages: Annotated[int, Field(ge=2)] = 5
    eval_negative_size: Count | None = None
    do_gradient_checkpointing: bool = False
    do_distributed_inbatch_negative: bool = False
    query_max_length: Positive = 512
    passage_max_length: Positive = 512
    query_prefix: str = "query: "
    passage_prefix: str = "passage: "
    export: RetrievalExport | None = None


class MultiTokenPrediction(RequestModel):
    """Heads that predict several tokens ahead."""

    num_nextn_predict_layers: Positive | None = None
    use_repeated_layer: bool | None = None
    loss_scaling_factor: float | None = None


class KernelBackend(RequestModel):
    """Which kernels the recipe uses."""

    attn: Text | None = None
    linear: Text | None = None
    rms_norm: Text | None = None
    rope: Text | None = None
    rope_fusion: bool | None = None
    experts: Text | None = None
    dispatcher: Text | None = None
    fake_balanced_gate: bool | None = None
    enable_hf_state_dict_adapter: bool | None = None
    enable_fsdp_optimizations: bool | None = None


class AutomodelTraining(RequestModel):
    """What is trained, and how."""

    training_type: Literal["sft", "distillation"] = "sft"
    recipe: Literal["auto", "sft", "bi_encoder", "cross_encoder"] = "auto"
    finetuning_type: Literal["lora", "all_weights", "lora_merged"] = "lora"
    max_seq_length: Positive = 2048
    precision: Precision | None = None
    """``None`` = the model's own."""
    attn_implementation: Literal["sdpa", "flash_attention_2", "eager"] = "sdpa"
    execution_profile: Text | None = None
    activation_checkpointing: bool = False
    teacher_model: Reference | None = None
    distillation_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    distillation_temperature: Annotated[float, Field(gt=0)] = 1.0
    teacher_precision: Precision = "bf16"
    offload_teacher: bool = False
    lora: AutomodelLora | None = None
    retrieval: Retrieval | None = None
    mtp: MultiTokenPrediction | None = None
    backend: KernelBackend | None = None

    @model_validator(mode="after")
    def _distillation_has_a_teacher(self) -> AutomodelTraining:
        if self.training_type == "distillation":
            problems = []
            if self.teacher_model is None:
                problems.append("training.teacher_model is missing: distillation learns from one")
            if self.recipe not in {"auto", "sft"}:
                problems.append(f"training.recipe must be sft for distillation, not {self.recipe}")
            if problems:
                raise several(problems)
        return self


class AutomodelSchedule(RequestModel):
    """How long, and when to look."""

    epochs: Positive = 1
    max_steps: Positive | None = None
    val_check_interval: Annotated[float, Field(gt=0)] | None = None
    """Up to 1 a share of an epoch, above a number of steps; ``None`` = once an epoch."""
    validation_split: Share = 0.1
    checkpoint_selection: Literal["best", "last", "both"] = "best"
    seed: Seed | None = None
    """``None`` = 1111."""
    progress_reporting: ProgressReporting = Field(default_factory=ProgressReporting)


class AutomodelBatch(RequestModel):
    """How many rows make a step."""

    global_batch_size: Positive = 8
    micro_batch_size: Positive = 1
    sequence_packing: bool = False
    sequence_packing_max_samples: Positive = 1000
    packed_sequence_size: Positive | None = None

    @model_validator(mode="after")
    def _packed_size_needs_packing(self) -> AutomodelBatch:
        if self.packed_sequence_size is not None and not self.sequence_packing:
            raise ValueError("batch.packed_sequence_size needs batch.sequence_packing: true")
        return self


class AutomodelOptimizer(RequestModel):
    """The optimizer and its learning rate."""

    learning_rate: Annotated[float, Field(gt=0)] = 5e-6
    min_learning_rate: Annotated[float, Field(ge=0)] | None = None
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    adam_beta1: Share = 0.9
    adam_beta2: Share = 0.999
    adam_eps: Annotated[float, Field(gt=0)] = 1e-8
    warmup_steps: Count = 0
    optimizer: Literal["auto", "Adam", "AdamW", "FusedAdam"] = "auto"
    lr_decay_style: Literal["cosine", "linear", "constant"] = "cosine"

    @model_validator(mode="after")
    def _decays(self) -> AutomodelOptimizer:
        problems = learning_rate_problems(self.learning_rate, self.min_learning_rate)
        if problems:
            raise several(problems)
        return self


class PipelineOptions(RequestModel):
    """Options of pipeline parallelism."""

    pp_schedule: Text | None = None
    pp_microbatch_size: Positive | None = None
    round_virtual_stages_to_pp_multiple: Literal["up", "down"] | None = None
    scale_grads_in_schedule: bool | None = None
    patch_inner_model: bool | None = None
    patch_causal_lm_model: bool | None = None


class AutomodelParallelism(Parallelism):
    """Devices, and options of their pipeline."""

    pipeline: PipelineOptions | None = None


class AutomodelJobInput(RequestModel):
    """One fine-tuning job of the backend ``automodel``."""

    name: Text | None = None
    model: Reference
    dataset: AutomodelDataset
    training: AutomodelTraining = Field(default_factory=AutomodelTraining)
    schedule: AutomodelSchedule = Field(default_factory=AutomodelSchedule)
    batch: AutomodelBatch = Field(default_factory=AutomodelBatch)
    optimizer: AutomodelOptimizer = Field(default_factory=AutomodelOptimizer)
    parallelism: AutomodelParallelism = Field(default_factory=AutomodelParallelism)
    early_stopping: EarlyStopping | None = None
    best_checkpoint: BestCheckpoint | None = None
    eval: CheckpointEvaluation | None = None
    output: Output | None = None
    rows: RowsPolicy = Field(default_factory=RowsPolicy)
    integrations: Integrations | None = None
    deployment_config: DeploymentConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_removed_field(cls, value: object) -> object:
        if isinstance(value, dict) and "output_model" in value:
            raise ValueError("output_model is no longer a field: use output.name")
        return value

    @model_validator(mode="after")
    def _batch_divides(self) -> AutomodelJobInput:
        data_parallel = self.parallelism.devices // self.parallelism.model_parallel
        together = self.batch.micro_batch_size * data_parallel
        if self.batch.global_batch_size % together:
            raise ValueError(
                f"batch.global_batch_size {self.batch.global_batch_size} cannot be divided by "
                f"micro_batch_size x data parallel size = {together}"
            )
        return self
