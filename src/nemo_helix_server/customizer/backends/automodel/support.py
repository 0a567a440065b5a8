"""The fields of ``automodel``."""

from __future__ import annotations

from nemo_helix_server.customizer.backends import during, row_policies
from nemo_helix_server.customizer.backends.reasons import NEEDS_GPU, NO_DEPLOYMENT, parallelism
from nemo_helix_server.customizer.support import Rule, SupportTable

_DISTILLATION = "distillation is done by no engine here"
_UNPACKED = "each row is a sequence of its own"
_KERNELS = "the kernels are the engine's own choice"

_SUPPORTED = {
    **during.SUPPORTED,
    **row_policies.SUPPORTED,
    "name": "the job's name",
    "model": "model",
    "dataset.training": "dataset",
    "dataset.validation": "validation",
    "dataset.prompt_template": "data.prompt_template",
    "dataset.shuffle": "data.shuffle",
    "training.finetuning_type": "finetuning, output_method",
    "training.max_seq_length": "max_seq_length",
    "training.precision": "precision",
    "training.attn_implementation": "attn_implementation",
    "training.execution_profile": "the profile of the training step",
    "training.activation_checkpointing": "activation_checkpointing",
    "training.lora.rank": "lora.rank",
    "training.lora.alpha": "lora.alpha",
    "training.lora.dropout": "lora.dropout",
    "training.lora.merge": "output_method",
    "training.lora.target_modules": "lora.target_modules",
    "training.lora.exclude_modules": "lora.exclude_modules",
    "training.lora.use_triton": "the engine's kernels",
    "schedule.epochs": "schedule.epochs",
    "schedule.max_steps": "schedule.max_steps, which wins over epochs",
    "schedule.val_check_interval": "schedule.eval_steps",
    "schedule.validation_split": "the download step's split",
    "schedule.checkpoint_selection": "save.output",
    "schedule.seed": "seed",
    "schedule.progress_reporting": "the job's series; every step is reported",
    "batch.global_batch_size": "batch.gradient_accumulation",
    "batch.micro_batch_size": "batch.per_device",
    "optimizer.learning_rate": "optimizer.learning_rate",
    "optimizer.min_learning_rate": "schedule.lr_scheduler_options",
    "optimizer.weight_decay": "optimizer.weight_decay",
    "optimizer.adam_beta1": "optimizer.beta1",
    "optimizer.adam_beta2": "optimizer.beta2",
    "optimizer.adam_eps": "optimizer.epsilon",
    "optimizer.warmup_steps": "schedule.warmup_steps",
    "optimizer.optimizer": "optimizer.name",
    "optimizer.lr_decay_style": "schedule.lr_scheduler",
    "parallelism.num_gpus_per_node": "devices.count",
    "output": "names of the trained model and its fileset",
    "integrations": "the job's trackers",
}

_RULES = (
    Rule("training.training_type", ("sft",), _DISTILLATION),
    Rule("training.recipe", ("auto", "sft"), "encoders for retrieval are trained by no engine here"),
    Rule("training.precision", (None, "bf16", "fp32"), "the engine scales no losses for fp16 or fp8"),
    Rule("training.attn_implementation", ("sdpa", "eager"), NEEDS_GPU, on="cpu"),
    Rule("training.teacher_model", (None,), _DISTILLATION),
    Rule("training.distillation_ratio", (None,), _DISTILLATION),
    Rule("training.distillation_temperature", (None,), _DISTILLATION),
    Rule("training.teacher_precision", (None,), _DISTILLATION),
    Rule("training.offload_teacher", (False,), _DISTILLATION),
    Rule("training.retrieval", (None,), "retrieval models are trained by no engine here"),
    Rule("training.mtp", (None,), "multi-token prediction (MTP) is done by no engine here"),
    Rule("training.backend", (None,), _KERNELS),
    Rule("training.lora.use_triton", (False,), NEEDS_GPU, on="cpu"),
    Rule("training.lora.use_memory_efficient_lora", (None, False), _KERNELS),
    Rule("batch.sequence_packing", (False,), _UNPACKED),
    Rule("batch.sequence_packing_max_samples", (None,), _UNPACKED),
    Rule("batch.packed_sequence_size", (None,), _UNPACKED),
    Rule("optimizer.optimizer", ("auto", "AdamW", "FusedAdam"), "the engine's Adam decouples weight decay"),
    Rule("optimizer.optimizer", ("auto", "AdamW"), NEEDS_GPU, on="cpu"),
    *parallelism("parallelism"),
    Rule("parallelism.pipeline", (None,), "pipeline parallelism is done by no engine here"),
    Rule("deployment_config", (None,), NO_DEPLOYMENT),
)

TABLE = SupportTable(
    kind="automodel", title="automodel: NeMo Automodel, supervised", supported=_SUPPORTED, rules=_RULES
)
