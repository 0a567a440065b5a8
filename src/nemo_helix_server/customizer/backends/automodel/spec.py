"""Input spec of ``automodel`` → resolved spec → engine spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_plugin.customization.types import AutomodelJobInput
from nemo_helix_plugin.customization.types.automodel import AutomodelLora
from nemo_helix_server.customizer.backends import during, row_policies, shared
from nemo_helix_server.customizer.backends.automodel import support
from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule

DEFAULT_SEED = 1111
_OPTIMIZERS = {"auto": "adamw_torch", "AdamW": "adamw_torch", "FusedAdam": "adamw_torch_fused"}
_DECAYS = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}


def rules(given: AutomodelJobInput, facts: CompileFacts) -> Iterator[Rule]:
    """What holds for this input here."""
    yield from shared.in_force(support.TABLE.rules, facts)
    if given.training.finetuning_type == "all_weights":
        yield shared.without_lora("training.lora")
        if facts.machine.device == "cpu":
            yield Rule(
                "training.precision",
                (None, "fp32"),
                "on a CPU all weights are kept in what they are trained in",
            )
        if facts.machine.device == "cpu":
            reason = "without a GPU the engine would also store the trained weights so"
            yield Rule("training.precision", (None, "fp32"), reason)
    if facts.validation is not None:
        yield Rule("schedule.validation_split", (0.0,), "dataset.validation is given")
    elif facts.validation_file is not None:
        yield Rule("schedule.validation_split", (0.0,), f"the dataset has {facts.validation_file}")
    validates = facts.validates or given.schedule.validation_split > 0
    selection = ("best", "last") if validates else ("last",)
    reason = "one trained model is published" if validates else "there are no rows to validate with"
    yield Rule("schedule.checkpoint_selection", selection, reason)
    yield from during.rules(given, facts, validates=validates)
    yield from during.publishes(given, "schedule.checkpoint_selection")
    yield from shared.intervals(
        "schedule.val_check_interval", given.schedule.val_check_interval, validates=validates
    )
    if given.optimizer.lr_decay_style != "cosine":
        yield Rule("optimizer.min_learning_rate", (None,), "only the cosine decay ends at one")
    yield from shared.devices("parallelism.num_gpus_per_node", facts)


def resolve(spec: dict[str, Any], facts: CompileFacts) -> None:
    """Fill in what is left open."""
    training = spec["training"]
    training["precision"] = training["precision"] or ("bf16" if facts.machine.device == "cuda" else "fp32")
    if training["finetuning_type"] != "all_weights" and training["lora"] is None:
        triton = facts.machine.device == "cuda"
        training["lora"] = {**AutomodelLora().model_dump(mode="json"), "use_triton": triton}
    if spec["schedule"]["seed"] is None:
        spec["schedule"]["seed"] = DEFAULT_SEED
    during.resolve(spec, facts, "val_loss")
    spec["checkpoints"] = shared.checkpoints(facts)


def engine_spec(spec: Mapping[str, Any], facts: CompileFacts) -> dict[str, Any]:
    """The engine's input."""
    training, schedule, batch = spec["training"], spec["schedule"], spec["batch"]
    adapters = training["finetuning_type"] != "all_weights"
    block = training["lora"] or {}
    merged = training["finetuning_type"] == "lora_merged" or bool(block.get("merge"))
    best = schedule["checkpoint_selection"] == "best"
    count = shared.processes(spec["parallelism"])
    found = {
        **shared.engine_base(spec, facts, "sft"),
        "finetuning": "lora" if adapters else "full",
        "output_method": "merged" if adapters and merged else "default",
        "schedule": {
            "max_steps": schedule["max_steps"],
            "epochs": schedule["epochs"],
            "eval_steps": shared.eval_steps(schedule["val_check_interval"]),
            **_rate(spec["optimizer"]),
        },
        "batch": {
            "per_device": batch["micro_batch_size"],
            "gradient_accumulation": batch["global_batch_size"] // (batch["micro_batch_size"] * count),
        },
        "optimizer": _optimizer(spec["optimizer"]),
        "data": {
            "prompt_template": spec["dataset"]["prompt_template"],
            "shuffle": spec["dataset"]["shuffle"],
            **row_policies.engine_data(spec),
        },
        "devices": shared.layout(spec["parallelism"]),
        **during.engine_parts(
            spec,
            {
                **spec["checkpoints"],
                "best_metric": "val_loss" if best else None,
                "output": "best" if best else "last",
            },
        ),
        "precision": training["precision"],
        "max_seq_length": training["max_seq_length"],
        "seed": schedule["seed"],
        "activation_checkpointing": training["activation_checkpointing"],
        "attn_implementation": training["attn_implementation"],
    }
    if adapters:
        names = ("rank", "alpha", "dropout", "target_modules", "exclude_modules")
        found["lora"] = shared.lora(block, names)
    return found


def _rate(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    lowest = optimizer["min_learning_rate"]
    if lowest is None:
        return {
            "lr_scheduler": _DECAYS[optimizer["lr_decay_style"]],
            "warmup_steps": optimizer["warmup_steps"],
        }
    return {
        "lr_scheduler": "cosine_with_min_lr",
        "lr_scheduler_options": {"min_lr": lowest},
        "warmup_steps": optimizer["warmup_steps"],
    }


def _optimizer(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": _OPTIMIZERS[optimizer["optimizer"]],
        "learning_rate": optimizer["learning_rate"],
        "weight_decay": optimizer["weight_decay"],
        "beta1": optimizer["adam_beta1"],
        "beta2": optimizer["adam_beta2"],
        "epsilon": optimizer["adam_eps"],
    }
