"""Input spec of ``unsloth`` → resolved spec → engine spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_plugin.customization.types import UnslothJobInput
from nemo_helix_plugin.customization.types.unsloth import UnslothLora, UnslothOutput
from nemo_helix_server.customizer.backends import during, row_policies, shared
from nemo_helix_server.customizer.backends.unsloth import support
from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_LORA = (
    "rank",
    "alpha",
    "dropout",
    "target_modules",
    "bias",
    "use_rslora",
    "use_dora",
    "random_state",
    "modules_to_save",
    "layers_to_transform",
    "init_lora_weights",
)


def rules(given: UnslothJobInput, facts: CompileFacts) -> Iterator[Rule]:
    """What holds for this input here."""
    yield from shared.in_force(support.TABLE.rules, facts)
    if given.training.finetuning_type == "all_weights":
        reason = "all weights are trained, and quantised ones cannot be"
        yield Rule("model.load_in_4bit", (False,), reason)
        yield Rule("model.load_in_8bit", (False,), reason)
        yield shared.without_lora("training.lora")
        yield Rule("output.save_method", ("merged_16bit",), "all weights are trained, not adapters")
    elif given.model.load_in_8bit:
        yield Rule("model.load_in_4bit", (False,), "model.load_in_8bit is true")
    if given.hardware.precision is not None:
        same = {value: name for name, value in _DTYPES.items()}[given.hardware.precision]
        yield Rule("model.dtype", ("auto", same), f"hardware.precision is {given.hardware.precision}")
    schedule = given.schedule
    if schedule.lr_scheduler_type == "constant":
        reason = "schedule.lr_scheduler_type constant has no warm-up, as constant_with_warmup has"
        yield Rule("schedule.warmup_steps", (0,), reason)
        yield Rule("schedule.warmup_ratio", (None, 0.0), reason)
    elif schedule.warmup_steps:
        reason = f"schedule.warmup_steps is {schedule.warmup_steps}"
        yield Rule("schedule.warmup_ratio", (None,), reason)
    yield from row_policies.packing_rules(given, packs=given.dataset.packing)
    yield from during.rules(given, facts, validates=facts.validates)
    if not facts.validates:
        yield Rule("schedule.eval_steps", (None,), "there are no rows to validate with")


def resolve(spec: dict[str, Any], facts: CompileFacts) -> None:
    """Fill in what is left open."""
    hardware, training = spec["hardware"], spec["training"]
    usual = "bf16" if facts.machine.device == "cuda" else "fp32"
    hardware["precision"] = hardware["precision"] or _DTYPES.get(spec["model"]["dtype"], usual)
    hardware["gpus"] = 1 if facts.machine.device == "cuda" else 0
    if training["finetuning_type"] == "lora" and training["lora"] is None:
        training["lora"] = UnslothLora().model_dump(mode="json")
    if spec["output"] is None:
        method = "lora" if training["finetuning_type"] == "lora" else "merged_16bit"
        spec["output"] = {**UnslothOutput().model_dump(mode="json"), "save_method": method}
    during.resolve(spec, facts, "val_loss")
    spec["checkpoints"] = shared.checkpoints(facts, spec["schedule"]["save_steps"])


def engine_spec(spec: Mapping[str, Any], facts: CompileFacts) -> dict[str, Any]:
    """The engine's input."""
    training, schedule, batch = spec["training"], spec["schedule"], spec["batch"]
    model, data, optimizer = spec["model"], spec["dataset"], spec["optimizer"]
    adapters = training["finetuning_type"] == "lora"
    found = {
        **shared.engine_base(spec, facts, "sft"),
        "finetuning": "lora" if adapters else "full",
        "output_method": "merged" if adapters and spec["output"]["save_method"] != "lora" else "default",
        "schedule": {
            "max_steps": schedule["max_steps"],
            "epochs": schedule["epochs"],
            "warmup_steps": schedule["warmup_steps"],
            "warmup_ratio": schedule["warmup_ratio"],
            "lr_scheduler": schedule["lr_scheduler_type"],
            "lr_scheduler_options": schedule["lr_scheduler_kwargs"],
            "eval_steps": schedule["eval_steps"],
        },
        "batch": {
            "per_device": batch["per_device_train_batch_size"],
            "gradient_accumulation": batch["gradient_accumulation_steps"],
            "packing": data["packing"],
        },
        "optimizer": {
            "name": optimizer["optim"],
            "learning_rate": optimizer["learning_rate"],
            "weight_decay": optimizer["weight_decay"],
            "beta1": optimizer["adam_beta1"],
            "beta2": optimizer["adam_beta2"],
            "epsilon": optimizer["adam_epsilon"],
            "max_grad_norm": optimizer["max_grad_norm"],
            "label_smoothing": optimizer["label_smoothing_factor"],
            "neftune_noise_alpha": optimizer["neftune_noise_alpha"],
        },
        "data": {
            "format": "chat" if data["apply_chat_template"] else "auto",
            "text_field": data["text_field"],
            **row_policies.engine_data(spec),
        },
        **during.engine_parts(spec, spec["checkpoints"]),
        "precision": spec["hardware"]["precision"],
        "max_seq_length": model["max_seq_length"],
        "seed": schedule["seed"],
        "activation_checkpointing": training["use_gradient_checkpointing"] != "false",
        "trust_remote_code": model["trust_remote_code"],
        "load_in_4bit": model["load_in_4bit"],
        "load_in_8bit": model["load_in_8bit"],
    }
    if adapters:
        found["lora"] = shared.lora(training["lora"], _LORA)
    return found
