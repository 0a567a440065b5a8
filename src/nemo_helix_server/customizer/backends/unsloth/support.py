"""The fields of ``unsloth``."""

from __future__ import annotations

from nemo_helix_server.customizer.backends import during, row_policies
from nemo_helix_server.customizer.backends.reasons import FOREIGN_CODE, NEEDS_GPU, NO_DEPLOYMENT
from nemo_helix_server.customizer.support import Rule, SupportTable

SCHEDULERS = ("linear", "cosine", "constant", "constant_with_warmup", "cosine_with_min_lr", "polynomial")

_SUPPORTED = {
    **during.SUPPORTED,
    **row_policies.SUPPORTED,
    "name": "the job's name",
    "model.name": "model",
    "model.max_seq_length": "max_seq_length",
    "model.load_in_4bit": "load_in_4bit",
    "model.load_in_8bit": "load_in_8bit",
    "model.dtype": "precision",
    "model.trust_remote_code": "trust_remote_code",
    "dataset.path": "dataset",
    "dataset.text_field": "data.text_field",
    "dataset.apply_chat_template": "data.format",
    "dataset.validation_path": "validation",
    "dataset.packing": "batch.packing",
    "training.finetuning_type": "finetuning",
    "training.use_gradient_checkpointing": "activation_checkpointing",
    "training.execution_profile": "the profile of the training step",
    "training.lora.rank": "lora.rank",
    "training.lora.alpha": "lora.alpha",
    "training.lora.dropout": "lora.dropout",
    "training.lora.target_modules": "lora.target_modules",
    "training.lora.bias": "lora.bias",
    "training.lora.use_rslora": "lora.use_rslora",
    "training.lora.use_dora": "lora.use_dora",
    "training.lora.random_state": "lora.random_state",
    "training.lora.modules_to_save": "lora.modules_to_save",
    "training.lora.layers_to_transform": "lora.layers_to_transform",
    "schedule.epochs": "schedule.epochs",
    "schedule.max_steps": "schedule.max_steps, which wins over epochs",
    "schedule.warmup_steps": "schedule.warmup_steps",
    "schedule.warmup_ratio": "schedule.warmup_ratio",
    "schedule.lr_scheduler_type": "schedule.lr_scheduler",
    "schedule.lr_scheduler_kwargs": "schedule.lr_scheduler_options",
    "schedule.save_steps": "save.steps",
    "schedule.eval_steps": "schedule.eval_steps",
    "schedule.seed": "seed",
    "schedule.progress_reporting": "the job's series; every step is reported",
    "batch.per_device_train_batch_size": "batch.per_device",
    "batch.gradient_accumulation_steps": "batch.gradient_accumulation",
    "optimizer.learning_rate": "optimizer.learning_rate",
    "optimizer.weight_decay": "optimizer.weight_decay",
    "optimizer.optim": "optimizer.name",
    "optimizer.adam_beta1": "optimizer.beta1",
    "optimizer.adam_beta2": "optimizer.beta2",
    "optimizer.adam_epsilon": "optimizer.epsilon",
    "optimizer.max_grad_norm": "optimizer.max_grad_norm",
    "optimizer.label_smoothing_factor": "optimizer.label_smoothing",
    "optimizer.neftune_noise_alpha": "optimizer.neftune_noise_alpha",
    "hardware.precision": "precision",
    "output.name": "names of the trained model and its fileset",
    "output.description": "the trained model's description",
    "output.save_method": "output_method",
    "integrations": "the job's trackers",
}

_RULES = (
    Rule("model.load_in_4bit", (False,), NEEDS_GPU, on="cpu"),
    Rule("model.load_in_8bit", (False,), NEEDS_GPU, on="cpu"),
    Rule("model.dtype", ("auto", "float32", "bfloat16"), NEEDS_GPU, on="cpu"),
    Rule("model.trust_remote_code", (False,), FOREIGN_CODE, on="untrusted"),
    Rule("model.device_map", (None,), "the whole model is on one device"),
    Rule("model.rope_scaling", (None,), "a model is trained with the positions that its own config names"),
    Rule("dataset.packing", (False,), "rows are packed on GPUs only", on="cpu"),
    Rule("training.training_type", ("sft",), "supervised fine-tuning is what this backend does"),
    Rule("training.use_gradient_checkpointing", ("false", "true"), NEEDS_GPU, on="cpu"),
    Rule("training.lora.loftq_config", (None,), "adapters start as init_lora_weights true has them"),
    Rule("training.lora.layer_replication", (None,), "a model is trained with the layers that it has"),
    Rule("training.lora.init_lora_weights", (True, False), "named ways to start are not among the engine's"),
    Rule("schedule.lr_scheduler_type", SCHEDULERS, "the engine knows no other"),
    Rule("schedule.logging_steps", (1,), "every step is recorded"),
    Rule("optimizer.optim", ("adamw_torch", "adamw_torch_fused", "sgd"), NEEDS_GPU, on="cpu"),
    Rule("hardware.gpus", (None, 1), "this backend trains on one device"),
    Rule("hardware.precision", (None, "bf16"), NEEDS_GPU, on="cpu"),
    Rule(
        "output.save_method",
        ("lora", "merged_16bit"),
        "models with 4-bit weights are written by no engine here",
    ),
    Rule("deployment_config", (None,), NO_DEPLOYMENT),
)

TABLE = SupportTable(
    kind="unsloth", title="unsloth: Unsloth, supervised, one device", supported=_SUPPORTED, rules=_RULES
)
