"""The spec as keyword arguments of TRL's configuration classes. Nothing of a library is imported."""

from __future__ import annotations

from typing import Any

from nemo_engines.running import TrainingRun
from nemo_engines.spec import EngineSpec


def arguments(run: TrainingRun) -> dict[str, Any]:
    """Keyword arguments of ``SFTConfig``, ``DPOConfig`` or ``GRPOConfig``, by the spec's method."""
    own = {"sft": _sft, "dpo": _dpo, "grpo": _grpo}[run.spec.method]
    return {**_schedule(run.spec), **_optimizer(run.spec), **_device(run), **_steering(run), **own(run.spec)}


def _schedule(spec: EngineSpec) -> dict[str, Any]:
    schedule = spec.schedule
    warmup: float = schedule.warmup_steps
    if not warmup and schedule.warmup_ratio:
        # a fraction below 1 counts as a share of all steps
        warmup = schedule.warmup_ratio
    return {
        "max_steps": schedule.max_steps or -1,
        "num_train_epochs": schedule.epochs,
        "warmup_steps": warmup,
        "lr_scheduler_type": schedule.lr_scheduler,
        "lr_scheduler_kwargs": dict(schedule.lr_scheduler_options or {}),
        "per_device_train_batch_size": spec.batch.per_device,
        "per_device_eval_batch_size": spec.batch.per_device,
        "gradient_accumulation_steps": spec.batch.gradient_accumulation,
        "seed": spec.seed,
        "data_seed": spec.seed,
        "gradient_checkpointing": spec.activation_checkpointing,
    }


def _optimizer(spec: EngineSpec) -> dict[str, Any]:
    optimizer = spec.optimizer
    return {
        "optim": optimizer.name,
        "learning_rate": optimizer.learning_rate,
        "weight_decay": optimizer.weight_decay,
        "adam_beta1": optimizer.beta1,
        "adam_beta2": optimizer.beta2,
        "adam_epsilon": optimizer.epsilon,
        "max_grad_norm": optimizer.max_grad_norm,
        "label_smoothing_factor": optimizer.label_smoothing,
        "neftune_noise_alpha": optimizer.neftune_noise_alpha,
    }


def _device(run: TrainingRun) -> dict[str, Any]:
    cpu = run.device == "cpu"
    return {
        "use_cpu": cpu,
        "bf16": run.precision == "bf16",
        "fp16": run.precision == "fp16",
        "dataloader_pin_memory": not cpu,
        "ddp_backend": ("gloo" if cpu else "nccl") if run.world.size > 1 else None,
        "ddp_find_unused_parameters": False,
    }


def _steering(run: TrainingRun) -> dict[str, Any]:
    """Saving, validating and reporting are ours alone: the library's own would rotate, filter or fetch."""
    return {
        "output_dir": str(run.work),
        "save_strategy": "no",
        "save_total_limit": None,
        "save_only_model": False,
        "ignore_data_skip": False,
        "eval_strategy": "no",
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "push_to_hub": False,
        "disable_tqdm": True,
        "train_sampling_strategy": "random" if run.spec.data.shuffle else "sequential",
    }


def _sft(spec: EngineSpec) -> dict[str, Any]:
    return {
        "max_length": spec.max_seq_length,
        "packing": spec.batch.packing,
    }


def _dpo(spec: EngineSpec) -> dict[str, Any]:
    weights = {"sigmoid": spec.dpo.preference_loss_weight, "sft": spec.dpo.sft_loss_weight}
    used = {name: weight for name, weight in weights.items() if weight}
    return {
        "max_length": spec.max_seq_length,
        "beta": spec.dpo.beta,
        "loss_type": list(used),
        "loss_weights": list(used.values()),
    }


def _grpo(spec: EngineSpec) -> dict[str, Any]:
    grpo = spec.grpo
    return {
        "num_generations": grpo.num_generations,
        "per_device_eval_batch_size": grpo.num_generations,
        "steps_per_generation": grpo.steps_per_generation,
        "num_iterations": grpo.num_iterations,
        "max_completion_length": grpo.max_new_tokens,
        "temperature": grpo.temperature,
        "top_p": grpo.top_p,
        "top_k": grpo.top_k or 0,
        "beta": grpo.kl_penalty,
        "epsilon": grpo.clip_min,
        "epsilon_high": grpo.clip_max,
        "delta": grpo.clip_c,
        "scale_rewards": "group" if grpo.normalize_rewards else "none",
        "mask_truncated_completions": grpo.mask_truncated,
        "loss_type": grpo.loss_type,
        "shuffle_dataset": spec.data.shuffle,
    }


def lora_arguments(spec: EngineSpec) -> dict[str, Any]:
    """Keyword arguments of peft's ``LoraConfig``."""
    lora = spec.lora
    chosen = {
        "target_modules": list(lora.target_modules) if lora.target_modules else "all-linear",
        "exclude_modules": list(lora.exclude_modules) if lora.exclude_modules else None,
        "modules_to_save": list(lora.modules_to_save) if lora.modules_to_save else None,
        "layers_to_transform": list(lora.layers_to_transform) if lora.layers_to_transform else None,
    }
    return {
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "bias": lora.bias,
        "use_rslora": lora.use_rslora,
        "use_dora": lora.use_dora,
        "init_lora_weights": lora.init_lora_weights,
        "task_type": "CAUSAL_LM",
        **{name: value for name, value in chosen.items() if value is not None},
    }
