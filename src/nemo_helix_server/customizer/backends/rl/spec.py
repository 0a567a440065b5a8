"""Input spec of ``rl`` → resolved spec → engine spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_plugin.customization.types import GrpoTraining, RlJobInput
from nemo_helix_plugin.customization.types.rl import RlLora
from nemo_helix_server.customizer.backends import during, row_policies, shared
from nemo_helix_server.customizer.backends.rl import support
from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule
from nemo_helix_server.errors import InvalidError

DEFAULT_SEED = 42
HARMLESS = frozenset(
    {
        "CUDA_LAUNCH_BLOCKING",
        "MKL_NUM_THREADS",
        "NCCL_DEBUG",
        "NCCL_IB_DISABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_SOCKET_IFNAME",
        "OMP_NUM_THREADS",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TOKENIZERS_PARALLELISM",
        "TORCH_CPP_LOG_LEVEL",
    }
)
"""Variables that can load no code: those that everybody who may submit may set."""
_LORA = ("rank", "alpha", "dropout", "target_modules", "exclude_modules")


def rules(given: RlJobInput, facts: CompileFacts) -> Iterator[Rule]:
    """What holds for this input here."""
    training = given.training
    yield from shared.in_force((support.DPO if training.type == "dpo" else support.GRPO).rules, facts)
    if facts.adapter is not None:
        reason = f"{facts.adapter.shown} is an adapter, which is trained on as it is"
        yield Rule("training.finetuning_type", ("lora",), reason)
        yield Rule("training.lora", (None,), reason)
    elif training.finetuning_type == "all_weights":
        yield shared.without_lora("training.lora")
    yield from shared.intervals(
        "training.val_check_interval", training.val_check_interval, validates=facts.validates
    )
    yield from during.rules(given, facts, validates=facts.validates)
    yield from shared.devices("training.parallelism.num_gpus_per_node", facts)
    foreign = sorted(set(training.env_vars or {}) - HARMLESS)
    if foreign and not facts.trusted:
        reason = f"{foreign[0]} could load code, and setting it needs a token of the role admin"
        yield Rule("training.env_vars", (None,), reason)
    if isinstance(training, GrpoTraining):
        _check_groups(training)
    elif not training.preference_loss_weight and not training.sft_loss_weight:
        raise InvalidError(
            "training.preference_loss_weight and training.sft_loss_weight are both 0, so there is nothing to "
            "learn; give one of them a weight"
        )


def _check_groups(training: GrpoTraining) -> None:
    group, rows = training.num_generations_per_prompt, training.batch_size
    if training.num_prompts_per_step is None:
        if rows % group:
            raise InvalidError(
                f"training.batch_size {rows} cannot be divided by training.num_generations_per_prompt "
                f"{group}: the answers to one prompt are compared with each other; make it a multiple"
            )
    elif (training.num_prompts_per_step * group) % rows:
        raise InvalidError(
            f"training.num_prompts_per_step x training.num_generations_per_prompt = "
            f"{training.num_prompts_per_step * group} answers cannot be divided into batches of "
            f"training.batch_size {rows}; make it a multiple"
        )


def resolve(spec: dict[str, Any], facts: CompileFacts) -> None:
    """Fill in what is left open."""
    training = spec["training"]
    if training["finetuning_type"] == "lora" and training["lora"] is None and facts.adapter is None:
        training["lora"] = RlLora().model_dump(mode="json")
    if training["seed"] is None:
        training["seed"] = DEFAULT_SEED
    training["precision"] = "bf16" if facts.machine.device == "cuda" else "fp32"
    if training["type"] == "grpo":
        if training["max_new_tokens"] is None:
            training["max_new_tokens"] = max(1, training["max_seq_length"] // 2)
        if training["num_prompts_per_step"] is None:
            training["num_prompts_per_step"] = (
                training["batch_size"] // training["num_generations_per_prompt"]
            )
    during.resolve(spec, facts, _validated(training["type"])[0])
    spec["checkpoints"] = shared.checkpoints(facts, keep=training["keep_top_k"])


def engine_spec(spec: Mapping[str, Any], facts: CompileFacts) -> dict[str, Any]:
    """The engine's input."""
    training = spec["training"]
    adapters = training["finetuning_type"] == "lora"
    count = shared.processes(training["parallelism"])
    own = _dpo(training) if training["type"] == "dpo" else _grpo(training, count, facts)
    found = {
        **shared.engine_base(spec, facts, training["type"]),
        "finetuning": "lora" if adapters else "full",
        "schedule": {
            "max_steps": training["max_steps"],
            "epochs": training["epochs"],
            "eval_steps": shared.eval_steps(training["val_check_interval"]),
            **_rate(training),
        },
        "batch": {
            "per_device": training["micro_batch_size"],
            "gradient_accumulation": training["batch_size"] // (training["micro_batch_size"] * count),
        },
        "optimizer": {
            "learning_rate": training["learning_rate"],
            "weight_decay": training["weight_decay"],
            "beta1": training["adam_beta1"],
            "beta2": training["adam_beta2"],
            "epsilon": training["adam_eps"],
            "max_grad_norm": training["max_grad_norm"],
        },
        "data": row_policies.engine_data(spec),
        "devices": shared.layout(training["parallelism"]),
        **during.engine_parts(spec, {**spec["checkpoints"], **_best(training["type"], facts)}),
        "precision": training["precision"],
        "max_seq_length": training["max_seq_length"],
        "seed": training["seed"],
        "activation_checkpointing": training["activation_checkpointing"],
        **own,
    }
    if facts.adapter is not None:
        found["adapter"] = shared.ADAPTER
    elif adapters:
        found["lora"] = shared.lora(training["lora"], _LORA)
    return found


def _rate(training: Mapping[str, Any]) -> dict[str, Any]:
    lowest = training["min_learning_rate"]
    scheduler = "constant_with_warmup" if lowest is None else "cosine_with_min_lr"
    options = None if lowest is None else {"min_lr": lowest}
    return {
        "warmup_steps": training["warmup_steps"],
        "lr_scheduler": scheduler,
        "lr_scheduler_options": options,
    }


def _best(method: str, facts: CompileFacts) -> dict[str, Any]:
    """Which weights are published: the best by what is validated, or the last."""
    if not facts.validates:
        return {}
    metric, order = _validated(method)
    return {"best_metric": metric, "best_is": order, "output": "best"}


def _validated(method: str) -> tuple[str, str]:
    """The metric of what is validated, and which of its values is the best."""
    return ("val_loss", "lowest") if method == "dpo" else ("val_reward", "highest")


def _dpo(training: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dpo": {
            "beta": training["ref_policy_kl_penalty"],
            "preference_loss_weight": training["preference_loss_weight"],
            "sft_loss_weight": training["sft_loss_weight"],
        }
    }


def _grpo(training: Mapping[str, Any], count: int, facts: CompileFacts) -> dict[str, Any]:
    answers = training["num_prompts_per_step"] * training["num_generations_per_prompt"]
    return {
        "rewards": dict(facts.rewards or {}),
        "grpo": {
            "num_generations": training["num_generations_per_prompt"],
            "steps_per_generation": answers // (training["micro_batch_size"] * count),
            "max_new_tokens": training["max_new_tokens"],
            "temperature": training["temperature"],
            "top_k": training["top_k"],
            "kl_penalty": training["ref_policy_kl_penalty"],
            "clip_min": training["ratio_clip_min"],
            "clip_max": training["ratio_clip_max"],
            "clip_c": training["ratio_clip_c"],
            "normalize_rewards": training["normalize_rewards"],
            "mask_truncated": training["overlong_filtering"],
        },
    }
