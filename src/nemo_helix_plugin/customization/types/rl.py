"""The input spec of the backend ``rl``: preference optimization (DPO) and reinforcement learning (GRPO)."""

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
    Parallelism,
    Positive,
    ProgressReporting,
    Reference,
    Seed,
    Share,
    Text,
    learning_rate_problems,
)
from nemo_helix_plugin.customization.types.rows import RowsPolicy
from nemo_helix_plugin.jobs.models import RequestModel


class RlLora(RequestModel):
    """Low-rank adapters."""

    rank: Positive = 16
    alpha: Positive = 32
    dropout: Share = 0.0
    target_modules: Modules | None = None
    exclude_modules: list[Text] | None = None


class RlTraining(RequestModel):
    """What DPO and GRPO have in common."""

    finetuning_type: Literal["all_weights", "lora"] = "all_weights"
    lora: RlLora | None = None
    optimizer_type: Text | None = None
    optimizer_name: Text | None = None
    optimizer_kwargs: dict[str, JsonValue] | None = None
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    min_learning_rate: Annotated[float, Field(ge=0)] | None = None
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    adam_beta1: Share = 0.9
    adam_beta2: Share = 0.999
    adam_eps: Annotated[float, Field(gt=0)] = 1e-5
    warmup_steps: Count = 0
    epochs: Positive = 1
    max_steps: Positive | None = None
    val_check_interval: Annotated[float, Field(gt=0)] | None = None
    val_at_end: bool = True
    keep_top_k: Positive = 1
    batch_size: Positive = 32
    micro_batch_size: Positive = 1
    activation_checkpointing: bool = False
    max_seq_length: Positive = 2048
    seed: Seed | None = None
    """``None`` = 42."""
    env_vars: dict[str, str] | None = None
    execution_profile: Text | None = None
    parallelism: Parallelism = Field(default_factory=Parallelism)
    progress_reporting: ProgressReporting = Field(default_factory=ProgressReporting)
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _numbers_go_together(self) -> RlTraining:
        problems = learning_rate_problems(self.learning_rate, self.min_learning_rate)
        together = self.micro_batch_size * (self.parallelism.devices // self.parallelism.model_parallel)
        if self.batch_size % together:
            problems.append(
                f"training.batch_size {self.batch_size} cannot be divided by micro_batch_size x data "
                f"parallel size = {together}"
            )
        if problems:
            raise several(problems)
        return self


class DpoTraining(RlTraining):
    """Direct preference optimization."""

    type: Literal["dpo"]
    ref_policy_kl_penalty: Annotated[float, Field(ge=0)] = 0.05
    preference_average_log_probs: bool = False
    sft_average_log_probs: bool = False
    preference_loss_weight: Annotated[float, Field(ge=0)] = 1.0
    sft_loss_weight: Annotated[float, Field(ge=0)] = 0.0


class RewardScaling(RequestModel):
    """A linear map of rewards."""

    source_min: float = 0
    source_max: float = 1
    target_min: float = 0
    target_max: float = 1


class GrpoTraining(RlTraining):
    """Group relative policy optimization, rewarded by the verifier of a benchmark."""

    type: Literal["grpo"]
    policy_backend: Literal["dtensor", "automodel"] | None = None
    v4_compatible: bool = True
    val_at_start: bool = False
    num_generations_per_prompt: Annotated[int, Field(ge=2)] = 8
    num_prompts_per_step: Positive | None = None
    temperature: Annotated[float, Field(gt=0, le=2)] = 1.0
    max_new_tokens: Positive | None = None
    top_k: Positive | None = None
    normalize_rewards: bool = True
    use_leave_one_out_baseline: bool = True
    advantage_clip_low: float | None = None
    advantage_clip_high: float | None = None
    overlong_filtering: bool = False
    max_rollout_turns: Positive = 1
    ref_policy_kl_penalty: Annotated[float, Field(ge=0)] = 0.0
    ratio_clip_min: Annotated[float, Field(ge=0)] = 0.2
    ratio_clip_max: Annotated[float, Field(ge=0)] = 0.28
    ratio_clip_c: Annotated[float, Field(gt=1)] | None = None
    use_on_policy_kl_approximation: bool = True
    use_importance_sampling_correction: bool = True
    truncated_importance_sampling_type: Literal["tis", "icepop", "seq-mask-tis"] | None = None
    truncated_importance_sampling_ratio: float | None = None
    truncated_importance_sampling_ratio_min: float | None = None
    use_dynamic_sampling: bool = False
    dynamic_sampling_max_gen_batches: Positive = 10
    batch_multiplier: Annotated[float, Field(gt=0)] = 1.0
    reward_shaping: dict[str, JsonValue] | None = None
    reward_scaling: RewardScaling | None = None
    batching_strategy: Text = "dynamic"
    train_mb_tokens: Positive | None = None
    sequence_length_round: Positive = 64
    router_aux_loss_coef: float | None = None
    hf_config_overrides: dict[str, JsonValue] | None = None
    logprob_chunk_size: Positive | None = None
    """``None`` = 2048."""
    vllm_tensor_parallel_size: Positive | None = None
    vllm_gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.5
    vllm_kwargs: dict[str, JsonValue] | None = None
    automodel_kwargs: dict[str, JsonValue] | None = None
    moe_parallelizer: dict[str, JsonValue] | None = None
    log_nemo_gym_full_result_tables: bool = False


class RlJobInput(RequestModel):
    """One fine-tuning job of the backend ``rl``."""

    name: Text | None = None
    model: Reference
    dataset: Reference
    environment: Reference | None = None
    """A fileset with ``format: native-v1`` and ``config_paths`` of a benchmark; GRPO's rewards."""
    training: Annotated[DpoTraining | GrpoTraining, Field(discriminator="type")]
    early_stopping: EarlyStopping | None = None
    best_checkpoint: BestCheckpoint | None = None
    eval: CheckpointEvaluation | None = None
    rows: RowsPolicy = Field(default_factory=RowsPolicy)
    integrations: Integrations | None = None
    output: Output | None = None
    deployment_config: DeploymentConfig | None = None

    @model_validator(mode="after")
    def _grpo_has_an_environment(self) -> RlJobInput:
        if self.training.type == "grpo" and self.environment is None:
            raise ValueError(
                "environment is missing: GRPO is rewarded by one (a fileset of format native-v1)"
            )
        if self.training.type == "dpo" and self.environment is not None:
            raise ValueError("environment is for GRPO: DPO learns from the pairs of its dataset")
        return self
