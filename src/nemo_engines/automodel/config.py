"""The spec as the recipe's YAML. Nothing of the library is imported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_engines.errors import BadSpecError
from nemo_engines.running import TrainingRun
from nemo_engines.spec import EngineSpec

RECIPE = "nemo_automodel.recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction"
_ROWS = "nemo_engines.automodel.data.token_rows"
_DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
_DECAYS = {
    "linear": "linear",
    "cosine": "cosine",
    "constant": "constant",
    "constant_with_warmup": "constant",
    "cosine_with_min_lr": "cosine",
}


def check(run: TrainingRun) -> None:
    """Refuse what the recipe does not support, beyond what the registry says of the engine."""
    spec = run.spec
    if run.precision == "fp16":
        raise BadSpecError("precision 'fp16' is not supported by engine 'automodel': use 'bf16' or 'fp32'")
    if run.precision == "bf16" and run.device == "cpu" and spec.finetuning == "full":
        raise BadSpecError(
            "precision 'bf16' is not supported by engine 'automodel' for full weights on a CPU, where it "
            "would also store them so: use 'fp32'"
        )
    if spec.schedule.lr_scheduler not in _DECAYS:
        known = ", ".join(sorted(_DECAYS))
        raise BadSpecError(
            f"schedule.lr_scheduler '{spec.schedule.lr_scheduler}' is not one that engine 'automodel' knows: "
            f"{known}"
        )
    options = spec.schedule.lr_scheduler_options or {}
    for name in options:
        if spec.schedule.lr_scheduler != "cosine_with_min_lr" or name not in ("min_lr", "min_lr_rate"):
            raise BadSpecError(
                f"schedule.lr_scheduler_options.{name} is not one that engine 'automodel' knows"
            )
    if spec.finetuning == "lora" and spec.lora.target_modules and spec.lora.exclude_modules:
        raise BadSpecError("lora.target_modules and lora.exclude_modules cannot both be given")


def steps_per_epoch(spec: EngineSpec, rows: int, processes: int) -> int:
    """Optimizer steps of one pass over the rows, the last of which may have fewer."""
    batches = math.ceil(math.ceil(rows / processes) / spec.batch.per_device)
    return math.ceil(batches / spec.batch.gradient_accumulation)


def last_step(spec: EngineSpec, rows: int, processes: int) -> int:
    """Optimizer steps of the whole training."""
    return spec.schedule.max_steps or math.ceil(spec.schedule.epochs * steps_per_epoch(spec, rows, processes))


def render(run: TrainingRun, folder: Path) -> dict[str, Any]:
    """All of the recipe's configuration. ``folder`` has the rows, and gets what the recipe writes."""
    spec, processes = run.spec, run.world.size
    last = last_step(spec, len(run.rows), processes)
    tokenizer = {"pretrained_model_name_or_path": spec.model, "trust_remote_code": spec.trust_remote_code}
    loader = {"_target_": "torchdata.stateful_dataloader.StatefulDataLoader", "collate_fn": _COLLATE}
    config: dict[str, Any] = {
        "recipe": RECIPE,
        "seed": spec.seed,
        "step_scheduler": {
            "global_batch_size": spec.batch.per_device * spec.batch.gradient_accumulation * processes,
            "local_batch_size": spec.batch.per_device,
            "max_steps": last,
            "num_epochs": math.ceil(last / steps_per_epoch(spec, len(run.rows), processes)),
            # when to save, to validate and to stop is decided by the trainer contract, see recipe.py
            "ckpt_every_steps": NEVER,
            "val_every_steps": NEVER,
            "save_checkpoint_every_epoch": False,
            "validate_on_checkpoint": False,
            "preemption_signal": None,
        },
        "dist_env": {"backend": "gloo" if run.device == "cpu" else "nccl", "timeout_minutes": 30},
        "model": _model(run),
        "distributed": {
            "strategy": "ddp" if run.device == "cpu" else "fsdp2",
            "activation_checkpointing": spec.activation_checkpointing,
        },
        "loss_fn": {"_target_": "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy"},
        "dataset": {**_dataset(folder / "train.jsonl", spec), "tokenizer": tokenizer},
        "dataloader": {**loader, "shuffle": spec.data.shuffle},
        "optimizer": _optimizer(spec),
        "lr_scheduler": _schedule(spec, last),
        "clip_grad_norm": {"max_norm": spec.optimizer.max_grad_norm or math.inf},
        "checkpoint": {
            "enabled": True,
            "checkpoint_dir": str(folder / "checkpoints"),
            "model_save_format": "safetensors",
            "save_consolidated": "every" if spec.save.output == "best" or spec.evaluation else "final",
        },
    }
    if run.validation_rows is not None:
        rows = _dataset(folder / "validation.jsonl", spec)
        config["validation_dataset"] = {**rows, "tokenizer": tokenizer}
        config["validation_dataloader"] = {**loader, "shuffle": False}
    if spec.finetuning == "lora":
        config["peft"] = _adapters(run)
    return config


NEVER = 1 << 40
_COLLATE = "nemo_automodel.components.datasets.utils.default_collater"


def _model(run: TrainingRun) -> dict[str, Any]:
    spec = run.spec
    trained_whole = spec.finetuning == "full" and run.device == "cuda"
    return {
        "_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
        "pretrained_model_name_or_path": spec.model,
        # on GPUs the strategy computes with bf16 while the trained weights are kept in fp32
        "torch_dtype": "float32" if trained_whole else _DTYPES[run.precision],
        "attn_implementation": spec.attn_implementation or "sdpa",
        "trust_remote_code": spec.trust_remote_code,
    }


def _dataset(file: Path, spec: EngineSpec) -> dict[str, Any]:
    return {"_target_": _ROWS, "file": str(file), "seq_length": spec.max_seq_length}


def _optimizer(spec: EngineSpec) -> dict[str, Any]:
    optimizer = spec.optimizer
    common = {"lr": optimizer.learning_rate, "weight_decay": optimizer.weight_decay}
    if optimizer.name == "sgd":
        return {"_target_": "torch.optim.SGD", **common}
    return {
        "_target_": "torch.optim.AdamW",
        **common,
        "betas": [optimizer.beta1, optimizer.beta2],
        "eps": optimizer.epsilon,
        "fused": optimizer.name == "adamw_torch_fused",
    }


def _schedule(spec: EngineSpec, last: int) -> dict[str, Any]:
    schedule, rate = spec.schedule, spec.optimizer.learning_rate
    options = schedule.lr_scheduler_options or {}
    warmup = schedule.warmup_steps or math.ceil((schedule.warmup_ratio or 0.0) * last)
    return {
        "lr_decay_style": _DECAYS[schedule.lr_scheduler],
        "lr_warmup_steps": warmup,
        "lr_decay_steps": max(last, warmup + 1),
        "init_lr": 0.0,
        "max_lr": rate,
        "min_lr": float(options.get("min_lr", options.get("min_lr_rate", 0.0) * rate)),
    }


def _adapters(run: TrainingRun) -> dict[str, Any]:
    lora = run.spec.lora
    chosen: dict[str, Any] = {
        "_target_": "nemo_automodel.components._peft.lora.PeftConfig",
        "dim": lora.rank,
        "alpha": lora.alpha,
        "dropout": lora.dropout,
        "use_dora": lora.use_dora,
        "use_triton": run.device == "cuda" and not lora.dropout,
    }
    if lora.target_modules:
        chosen["target_modules"] = _patterns(lora.target_modules)
    else:
        chosen["exclude_modules"] = ["*lm_head*", *_patterns(lora.exclude_modules or ())]
    return chosen


def _patterns(modules: Sequence[str]) -> list[str]:
    """The recipe compares whole paths: a plain name means the modules of that name wherever they are."""
    return [pattern for name in modules for pattern in ([name] if "*" in name else [name, f"*.{name}"])]
