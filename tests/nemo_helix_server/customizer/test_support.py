"""No field is ignored: each is done and changes something, or is refused by name where it is set."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.nemo_helix_server.customizer.situations import (
    KINDS,
    MINIMAL,
    backend,
    backend_of,
    facts,
    leaves,
    parsed,
    source,
    with_value,
)

from nemo_helix_server.customizer import compile as compiling
from nemo_helix_server.customizer import paths
from nemo_helix_server.customizer.backends import during
from nemo_helix_server.customizer.facts import TrainingMachine
from nemo_helix_server.customizer.support import SpecRefusedError
from nemo_helix_server.errors import InvalidError

TABLES = {table.kind: table for kind in KINDS for table in backend(kind).tables}
ROWS: dict[str, Any] = {
    "rows.chat_template": "{{ messages }}",
    "rows.weight": 2.0,
    "rows.beside": {"lab/others": 0.5},
}
LEARNED: dict[str, Any] = {"rows.overlong": "drop", "rows.learned_turns": "last"}
# A value that is not the default, for every field that is done.
OTHER: dict[str, dict[str, Any]] = {
    "automodel": {
        "name": "mine",
        "model": "lab/other",
        "dataset.training": "lab/more",
        "dataset.validation": "lab/held-out",
        "dataset.prompt_template": "{a} {b}",
        "dataset.shuffle": False,
        "training.finetuning_type": "all_weights",
        "training.max_seq_length": 512,
        "training.precision": "bf16",
        "training.attn_implementation": "eager",
        "training.execution_profile": "gpu",
        "training.activation_checkpointing": True,
        "training.lora.rank": 4,
        "training.lora.alpha": 5,
        "training.lora.dropout": 0.5,
        "training.lora.merge": True,
        "training.lora.target_modules": ["q_proj"],
        "training.lora.exclude_modules": ["lm_head"],
        "schedule.epochs": 3,
        "schedule.max_steps": 7,
        "schedule.val_check_interval": 5,
        "schedule.validation_split": 0.5,
        "schedule.checkpoint_selection": "last",
        "schedule.seed": 5,
        "schedule.progress_reporting": {"time_series_metrics": ["*"]},
        "batch.global_batch_size": 16,
        "batch.micro_batch_size": 2,
        "optimizer.learning_rate": 0.5,
        "optimizer.min_learning_rate": 1e-6,
        "optimizer.weight_decay": 0.5,
        "optimizer.adam_beta1": 0.5,
        "optimizer.adam_beta2": 0.5,
        "optimizer.adam_eps": 0.5,
        "optimizer.warmup_steps": 5,
        "optimizer.optimizer": "AdamW",
        "optimizer.lr_decay_style": "linear",
        "parallelism.num_gpus_per_node": 2,
        "output": {"name": "tuned"},
        "integrations": {"wandb": {"project": "sums"}},
        **ROWS,
        **LEARNED,
    },
    "unsloth": {
        "name": "mine",
        "model.name": "lab/other",
        "model.max_seq_length": 512,
        "model.dtype": "bfloat16",
        "model.trust_remote_code": True,
        "dataset.path": "lab/more",
        "dataset.text_field": "body",
        "dataset.apply_chat_template": True,
        "dataset.validation_path": "lab/held-out",
        "training.finetuning_type": "all_weights",
        "training.use_gradient_checkpointing": "true",
        "training.execution_profile": "gpu",
        "training.lora.rank": 4,
        "training.lora.alpha": 5,
        "training.lora.dropout": 0.5,
        "training.lora.target_modules": ["q_proj"],
        "training.lora.bias": "all",
        "training.lora.use_rslora": True,
        "training.lora.use_dora": True,
        "training.lora.random_state": 5,
        "training.lora.modules_to_save": ["lm_head"],
        "training.lora.layers_to_transform": [1],
        "schedule.epochs": 3,
        "schedule.max_steps": 7,
        "schedule.warmup_steps": 5,
        "schedule.warmup_ratio": 0.5,
        "schedule.lr_scheduler_type": "cosine",
        "schedule.lr_scheduler_kwargs": {"a": 1},
        "schedule.save_steps": 5,
        "schedule.seed": 5,
        "schedule.progress_reporting": {"time_series_metrics": ["*"]},
        "batch.per_device_train_batch_size": 5,
        "batch.gradient_accumulation_steps": 5,
        "optimizer.learning_rate": 0.5,
        "optimizer.weight_decay": 0.5,
        "optimizer.optim": "sgd",
        "optimizer.adam_beta1": 0.5,
        "optimizer.adam_beta2": 0.5,
        "optimizer.adam_epsilon": 0.5,
        "optimizer.max_grad_norm": 0.5,
        "optimizer.label_smoothing_factor": 0.5,
        "optimizer.neftune_noise_alpha": 0.5,
        "hardware.precision": "bf16",
        "output.name": "tuned",
        "output.description": "better",
        "output.save_method": "merged_16bit",
        "integrations": {"mlflow": {"experiment_name": "sums"}},
        **ROWS,
        **LEARNED,
    },
}
_RL: dict[str, Any] = {
    "name": "mine",
    "model": "lab/other",
    "dataset": "lab/more",
    "training.lora.rank": 4,
    "training.lora.alpha": 5,
    "training.lora.dropout": 0.5,
    "training.lora.target_modules": ["q_proj"],
    "training.lora.exclude_modules": ["lm_head"],
    "training.finetuning_type": "lora",
    "training.learning_rate": 0.5,
    "training.min_learning_rate": 1e-6,
    "training.weight_decay": 0.5,
    "training.adam_beta1": 0.5,
    "training.adam_beta2": 0.5,
    "training.adam_eps": 0.5,
    "training.warmup_steps": 5,
    "training.epochs": 3,
    "training.max_steps": 7,
    "training.keep_top_k": 5,
    "training.batch_size": 64,
    "training.micro_batch_size": 2,
    "training.activation_checkpointing": True,
    "training.max_seq_length": 512,
    "training.seed": 5,
    "training.env_vars": {"NCCL_DEBUG": "INFO"},
    "training.execution_profile": "gpu",
    "training.parallelism.num_gpus_per_node": 2,
    "training.progress_reporting": {"time_series_metrics": ["*"]},
    "training.max_grad_norm": 0.5,
    "output": {"name": "tuned"},
    "integrations": {"wandb": {"project": "sums"}},
    **ROWS,
}
OTHER["dpo"] = {
    **_RL,
    "rows.overlong": "drop",
    "training.ref_policy_kl_penalty": 0.5,
    "training.preference_loss_weight": 0.5,
    "training.sft_loss_weight": 0.5,
}
OTHER["grpo"] = {
    **_RL,
    "training.num_generations_per_prompt": 4,
    "training.num_prompts_per_step": 8,
    "training.temperature": 0.5,
    "training.max_new_tokens": 5,
    "training.top_k": 5,
    "training.normalize_rewards": False,
    "training.overlong_filtering": True,
    "training.ref_policy_kl_penalty": 0.5,
    "training.ratio_clip_min": 0.1,
    "training.ratio_clip_max": 0.5,
    "training.ratio_clip_c": 5.0,
}
# Done, and shown to be done elsewhere than in these tests, or without an effect that can be seen.
ELSEWHERE = {
    "automodel": {"training.lora.use_triton", *during.SUPPORTED},
    "unsloth": {
        "dataset.packing",
        "model.load_in_4bit",
        "model.load_in_8bit",
        "schedule.eval_steps",
        *during.SUPPORTED,
    },
    "dpo": {"training.type", "environment", "training.val_check_interval", *during.SUPPORTED},
    "grpo": {"training.type", "environment", "training.val_check_interval", *during.SUPPORTED},
}
# Shown as what was decided, which nobody can set.
DECIDED = {"hardware.gpus", "hardware.precision"}
# Another spelling of what is done anyway.
SAME = {("automodel", "optimizer.optimizer"), ("automodel", "training.execution_profile")}


def covered(path: str, table: Any) -> bool:
    """Whether a table says something about a field, or about a block that it is in."""
    known = set(table)
    parts = path.split(".")
    return any(".".join(parts[:length]) in known for length in range(1, len(parts) + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_done_or_has_a_rule(kind: str) -> None:
    table = TABLES[kind]
    fields = set(leaves(backend(kind).description.input_type(), kind))
    known = [*table.supported, *(rule.path for rule in table.rules)]
    assert {path for path in fields if not covered(path, known)} == set()
    blocks = {path.rpartition(".")[0] for path in fields} | {path.split(".")[0] for path in fields}
    assert {path for path in known if path not in fields | blocks} == set()


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_that_is_done_has_another_value_here(kind: str) -> None:
    assert set(TABLES[kind].supported) - set(OTHER[kind]) == ELSEWHERE[kind]


def job(kind: str, spec: dict[str, Any], **changes: Any) -> compiling.Compiled:
    given = parsed(kind, spec)
    if "held-out" in json.dumps(spec):
        changes["validation"] = source("lab/held-out")
    for what, name in (("model", "lab/other"), ("dataset", "lab/more")):
        if name in json.dumps(spec):
            changes[what] = source(name)
    if getattr(given, "name", None):
        changes["job_name"] = given.name  # type: ignore[attr-defined]
    return compiling.compile_job(backend(kind), given, facts(kind, **changes))


@pytest.mark.parametrize(
    ("kind", "path"), [(kind, path) for kind in KINDS for path in OTHER[kind] if (kind, path) not in SAME]
)
def test_a_field_that_is_done_changes_the_job(kind: str, path: str) -> None:
    base = MINIMAL[kind]
    if ".lora." in path and backend_of(kind) == "rl":
        base = with_value(kind, "training.finetuning_type", "lora")
    changed = {**with_value(kind, path, OTHER[kind][path])}
    if ".lora." in path and backend_of(kind) == "rl":
        changed["training"]["finetuning_type"] = "lora"
    before, after = job(kind, base), job(kind, changed)
    assert _steps(after) != _steps(before) or _outside(path, before, after)


def _steps(compiled: compiling.Compiled) -> str:
    return json.dumps(compiled.platform_spec, sort_keys=True)


def _outside(path: str, before: compiling.Compiled, after: compiling.Compiled) -> bool:
    """What is done by the service reads the stored spec."""
    read = ("schedule.progress_reporting", "training.progress_reporting", "integrations")
    return path in read and paths.look(after.spec, path) != paths.look(before.spec, path)


def wrong_value(rule: Any) -> Any:
    """A value that a rule does not allow and that the input's type takes."""
    return WRONG.get(rule.path, WRONG.get(rule.path.rpartition(".")[2]))


WRONG: dict[str, Any] = {
    "rows.overlong": "error",
    "rows.learned_turns": "all",
    "num_nodes": 2,
    "tensor_parallel_size": 1,
    "sequence_parallel": True,
    "deployment_config": "fast",
    "training.training_type": "distillation",
    "training.recipe": "bi_encoder",
    "training.precision": "fp16",
    "training.attn_implementation": "flash_attention_2",
    "training.teacher_model": "lab/teacher",
    "training.distillation_ratio": 0.5,
    "training.distillation_temperature": 1.0,
    "training.teacher_precision": "bf16",
    "training.offload_teacher": True,
    "training.retrieval": {},
    "training.mtp": {},
    "training.backend": {"attn": "te"},
    "training.lora.use_triton": True,
    "training.lora.use_memory_efficient_lora": True,
    "batch.sequence_packing": True,
    "batch.sequence_packing_max_samples": 5,
    "optimizer.optimizer": "Adam",
    "parallelism.pipeline": {},
    "model.load_in_4bit": True,
    "model.load_in_8bit": True,
    "model.dtype": "float16",
    "model.device_map": "auto",
    "model.rope_scaling": {"type": "linear"},
    "training.use_gradient_checkpointing": "unsloth",
    "training.lora.loftq_config": {"bits": 4},
    "training.lora.layer_replication": [[0, 1]],
    "training.lora.init_lora_weights": "gaussian",
    "schedule.lr_scheduler_type": "inverse_sqrt",
    "schedule.logging_steps": 5,
    "optimizer.optim": "adamw_8bit",
    "hardware.gpus": 2,
    "dataset.packing": True,
    "hardware.precision": "fp16",
    "output.save_method": "merged_4bit",
    "training.optimizer_type": "x",
    "training.optimizer_name": "sgd",
    "training.optimizer_kwargs": {"a": 1},
    "training.val_at_end": False,
    "training.preference_average_log_probs": True,
    "training.sft_average_log_probs": False,
    "training.policy_backend": "dtensor",
    "training.v4_compatible": False,
    "training.val_at_start": True,
    "training.use_leave_one_out_baseline": True,
    "training.advantage_clip_low": 0.5,
    "training.advantage_clip_high": 0.5,
    "training.max_rollout_turns": 2,
    "training.use_on_policy_kl_approximation": True,
    "training.use_importance_sampling_correction": True,
    "training.truncated_importance_sampling_type": "tis",
    "training.truncated_importance_sampling_ratio": 2.0,
    "training.truncated_importance_sampling_ratio_min": 0.5,
    "training.use_dynamic_sampling": True,
    "training.dynamic_sampling_max_gen_batches": 10,
    "training.batch_multiplier": 2.0,
    "training.reward_shaping": {"a": 1},
    "training.reward_scaling": {},
    "training.batching_strategy": "dynamic",
    "training.train_mb_tokens": 5,
    "training.sequence_length_round": 64,
    "training.router_aux_loss_coef": 0.5,
    "training.hf_config_overrides": {"a": 1},
    "training.logprob_chunk_size": 5,
    "training.vllm_tensor_parallel_size": 1,
    "training.vllm_gpu_memory_utilization": 0.5,
    "training.vllm_kwargs": {"a": 1},
    "training.automodel_kwargs": {"a": 1},
    "training.moe_parallelizer": {"a": 1},
    "training.log_nemo_gym_full_result_tables": True,
}
_TWO_AT_LEAST = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "context_parallel_size",
    "expert_parallel_size",
)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        pytest.param(kind, rule, id=f"{kind}-{rule.path}-{rule.on}")
        for kind in KINDS
        for rule in TABLES[kind].rules
        if rule.path.rpartition(".")[2] not in _TWO_AT_LEAST
    ],
)
def test_what_is_not_supported_is_refused_by_name_where_it_is_set(kind: str, rule: Any) -> None:
    changes = {"trusted": False} if rule.on == "untrusted" else {}
    if rule.path == "batch.packed_sequence_size":
        return  # its type wants sequence_packing, which is refused first
    value = True if rule.path == "model.trust_remote_code" else wrong_value(rule)
    spec = with_value(kind, rule.path, value)
    if rule.path == "training.training_type" and kind == "automodel":
        spec["training"]["teacher_model"] = "lab/teacher"
    if rule.path == "training.training_type" and kind == "unsloth":
        return  # the type knows no other value
    with pytest.raises(SpecRefusedError) as refused:
        job(kind, spec, **changes)
    assert refused.value.problems[0].startswith(f"{rule.path} ")
    assert "because " in refused.value.detail


@pytest.mark.parametrize("size", _TWO_AT_LEAST)
@pytest.mark.parametrize(("kind", "block"), [("automodel", "parallelism"), ("dpo", "training.parallelism")])
def test_a_model_is_spread_over_no_devices(kind: str, block: str, size: str) -> None:
    spec = with_value(kind, block, {"num_gpus_per_node": 2, size: 2})
    with pytest.raises(InvalidError, match=rf"^{block}\.{size} 2 is not supported"):
        job(kind, spec, device="cuda", gpus=2)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_refused_where_nothing_is_set(kind: str, device: str) -> None:
    compiled = job(kind, MINIMAL[kind], device=device, trusted=False)
    for rule in TABLES[kind].rules:
        holds = rule.on == "any" or (rule.on == "cpu") == (device == "cpu")
        if rule.on != "untrusted" and holds and paths.is_there(compiled.spec, rule.path):
            shown = paths.look(compiled.spec, rule.path)
            assert rule.allows(shown) or rule.path in DECIDED, (rule.path, shown)


def test_defaults_are_shown_as_they_are_on_a_cpu_and_on_a_gpu() -> None:
    cpu, gpu = (job("unsloth", MINIMAL["unsloth"], device=device).spec for device in ("cpu", "cuda"))
    shown = [
        ("model.load_in_4bit", False, True),
        ("optimizer.optim", "adamw_torch", "adamw_8bit"),
        ("hardware.precision", "fp32", "bf16"),
        ("training.use_gradient_checkpointing", "false", "unsloth"),
        ("device", "cpu", "cuda"),
    ]
    for path, on_cpu, on_gpu in shown:
        assert (paths.look(cpu, path), paths.look(gpu, path)) == (on_cpu, on_gpu), path
    assert job("automodel", MINIMAL["automodel"]).spec["training"]["precision"] == "fp32"
    assert job("automodel", MINIMAL["automodel"]).spec["training"]["lora"]["use_triton"] is False


def test_what_needs_a_gpu_is_done_on_one() -> None:
    spec = {
        **MINIMAL["unsloth"],
        "optimizer": {"optim": "paged_adamw_8bit"},
        "hardware": {"precision": "fp16", "gpus": 1},
    }
    engine = job("unsloth", spec, device="cuda").engine_spec
    assert (engine["optimizer"]["name"], engine["precision"], engine["load_in_4bit"]) == (
        "paged_adamw_8bit",
        "fp16",
        True,
    )
    packed = with_value("unsloth", "dataset.packing", True)
    assert job("unsloth", packed, device="cuda").engine_spec["batch"]["packing"] is True
    eight = with_value("unsloth", "model.load_in_8bit", True)
    assert job("unsloth", eight, device="cuda").engine_spec["load_in_8bit"] is True
    assert job("unsloth", eight, device="cuda").spec["model"]["load_in_4bit"] is False


@pytest.mark.parametrize(
    ("kind", "spec", "sentence"),
    [
        (
            "grpo",
            with_value("grpo", "training.num_generations_per_prompt", 5),
            "training.batch_size 32 cannot be divided by training.num_generations_per_prompt 5",
        ),
        (
            "grpo",
            with_value("grpo", "training.num_prompts_per_step", 5),
            "40 answers cannot be divided into batches of training.batch_size 32",
        ),
        (
            "dpo",
            with_value("dpo", "training.preference_loss_weight", 0),
            "are both 0, so there is nothing to learn",
        ),
        (
            "dpo",
            with_value("dpo", "training.val_check_interval", 5),
            "training.val_check_interval 5.0 is not supported, because there are no rows to validate with",
        ),
        (
            "automodel",
            with_value("automodel", "schedule.val_check_interval", 0.5),
            "schedule.val_check_interval 0.5 is not supported",
        ),
        (
            "automodel",
            with_value("automodel", "schedule.checkpoint_selection", "both"),
            "schedule.checkpoint_selection 'both' is not supported, because one trained model is published",
        ),
        (
            "automodel",
            with_value("automodel", "optimizer", {"lr_decay_style": "linear", "min_learning_rate": 1e-6}),
            "optimizer.min_learning_rate 1e-06 is not supported, because only the cosine decay ends at one",
        ),
        (
            "automodel",
            with_value("automodel", "training", {"finetuning_type": "all_weights", "lora": {"rank": 4}}),
            "training.lora is not supported, because all weights are trained",
        ),
        (
            "automodel",
            with_value("automodel", "training", {"finetuning_type": "all_weights", "precision": "bf16"}),
            "training.precision 'bf16' is not supported, because on a CPU all weights",
        ),
        (
            "unsloth",
            with_value("unsloth", "schedule.eval_steps", 5),
            "schedule.eval_steps 5 is not supported, because there are no rows to validate with",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(kind: str, spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidError) as refused:
        job(kind, spec)
    assert sentence in refused.value.detail


def test_variables_that_could_load_code_need_a_trusted_caller() -> None:
    spec = with_value("dpo", "training.env_vars", {"LD_PRELOAD": "/tmp/x.so", "NCCL_DEBUG": "INFO"})
    with pytest.raises(InvalidError, match="LD_PRELOAD could load code"):
        job("dpo", spec, trusted=False)
    assert "LD_PRELOAD" in _steps(job("dpo", spec, trusted=True))


def test_more_gpus_than_there_are_are_refused() -> None:
    spec = with_value("automodel", "parallelism.num_gpus_per_node", 4)
    with pytest.raises(InvalidError, match="because the machine has 2 GPUs"):
        job("automodel", spec, device="cuda", gpus=2)
    assert job("automodel", spec, device="cuda", gpus=4).engine_spec["devices"] == {"count": 4}


NO_WARM_UP = "schedule.lr_scheduler_type constant has no warm-up, as constant_with_warmup has"


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        (
            {"warmup_steps": 5, "warmup_ratio": 0.1},
            "schedule.warmup_ratio 0.1 is not supported, because schedule.warmup_steps is 5; leave it out",
        ),
        (
            {"lr_scheduler_type": "constant", "warmup_steps": 5},
            f"schedule.warmup_steps 5 is not supported, because {NO_WARM_UP}; leave it out, or give 0",
        ),
        (
            {"lr_scheduler_type": "constant", "warmup_ratio": 0.1},
            f"schedule.warmup_ratio 0.1 is not supported, because {NO_WARM_UP}; leave it out, or give 0.0",
        ),
    ],
)
def test_options_of_which_one_would_undo_the_other_are_refused(
    schedule: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        job("unsloth", {**MINIMAL["unsloth"], "schedule": schedule})
    assert str(caught.value) == sentence


def test_a_warm_up_of_no_steps_leaves_the_ratio_as_it_is() -> None:
    made = job("unsloth", {**MINIMAL["unsloth"], "schedule": {"warmup_steps": 0, "warmup_ratio": 0.1}})
    assert made.engine_spec["schedule"]["warmup_ratio"] == 0.1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "unsloth" not in kind])
def test_how_many_nodes_are_taken_is_what_the_executor_of_the_profile_gives(kind: str) -> None:
    (path,) = {rule.path for rule in TABLES[kind].rules if rule.on == "one node"}
    one = compiling.refused(backend(kind), TrainingMachine("cpu"))
    assert one[path] == "the executor of the profile gives a step one node"
    assert path not in compiling.refused(backend(kind), TrainingMachine("cpu", nodes=4))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_several_nodes_reach_the_engine_and_the_scheduler(device: str) -> None:
    machine = TrainingMachine(device, None, nodes=8)  # type: ignore[arg-type]
    given = {
        **MINIMAL["automodel"],
        "parallelism": {"num_nodes": 2, "num_gpus_per_node": 4},
        "batch": {"global_batch_size": 32, "micro_batch_size": 1},
    }
    made = job("automodel", given, machine=machine)
    assert made.engine_spec["devices"] == {"count": 4, "nodes": 2}
    assert made.engine_spec["batch"] == {"per_device": 1, "gradient_accumulation": 4}
    executor = made.platform_spec["steps"][1]["executor"]
    assert (executor["provider"], executor["resources"]["num_nodes"]) == ("gpu_distributed", 2)
    assert executor["resources"]["num_gpus"] == (4 if device == "cuda" else 0)


@pytest.mark.parametrize(
    ("device", "there", "provider"),
    [
        ("cpu", (), "cpu"),
        ("cuda", (), "gpu"),
        ("cuda", ("gpu_distributed",), "gpu_distributed"),
        ("cuda", ("cpu", "gpu", "gpu_distributed"), "gpu"),
        ("cpu", ("gpu",), "gpu"),
    ],
)
def test_a_step_has_the_provider_under_which_its_profile_is_there(
    device: str, there: tuple[str, ...], provider: str
) -> None:
    machine = TrainingMachine(device, None)  # type: ignore[arg-type]
    made = job("automodel", MINIMAL["automodel"], machine=machine, providers=there)
    executor = made.platform_spec["steps"][1]["executor"]
    assert executor["provider"] == provider
    assert executor["resources"].get("num_gpus", 0) == (1 if device == "cuda" else 0)
