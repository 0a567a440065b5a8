"""Fields that mean the same for every backend, under one name, and where each backend's spec has them.

The options of `nemo customization sft|dpo|grpo`, what their spec files may say, and the reference page are
made of this table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

Path = tuple[str, ...]
"""A field of a spec, by its keys."""

METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "sft": ("automodel", "unsloth"),
    "dpo": ("rl",),
    "grpo": ("rl",),
}
"""The backends that can do a method, the preferred one first."""
SUMMARIES: Final[Mapping[str, str]] = {
    "sft": "Supervised fine-tuning, by the backend that is installed.",
    "dpo": "Preference optimization (DPO) of pairs of answers.",
    "grpo": "Reinforcement learning (GRPO) by an environment.",
}
Kind = Literal["source", "text", "whole", "number", "flag", "words"]


class CommonField(NamedTuple):
    """A field with one name and one meaning."""

    name: str
    meaning: str
    """Half a sentence for the help and the reference."""
    kind: Kind
    places: Mapping[str, str]
    """Backend → dotted path in its spec; a backend that is not there has no such field."""
    methods: tuple[str, ...] = tuple(METHODS)
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The option of the command."""
        return "--output-name" if self.name == "output" else f"--{self.name.replace('_', '-')}"


def _everywhere(path: str) -> dict[str, str]:
    return dict.fromkeys(("automodel", "unsloth", "rl"), path)


def _places(automodel: str = "", unsloth: str = "", rl: str = "") -> dict[str, str]:
    given = {"automodel": automodel, "unsloth": unsloth, "rl": rl}
    return {backend: path for backend, path in given.items() if path}


_RL: Final = ("dpo", "grpo")
FIELDS: Final = (
    CommonField(
        "model",
        "what is trained: a model of the workspace, a folder, or a name at the hub",
        "source",
        _places("model", "model.name", "model"),
    ),
    CommonField(
        "data",
        "the rows: a file or folder, a fileset, or a data set at the hub; several, as SRC=WEIGHT, are mixed",
        "source",
        _places("dataset.training", "dataset.path", "dataset"),
    ),
    CommonField(
        "validation",
        "rows to validate with",
        "source",
        _places("dataset.validation", "dataset.validation_path"),
        ("sft",),
    ),
    CommonField(
        "environment",
        "a folder or fileset that rewards the answers",
        "source",
        _places(rl="environment"),
        ("grpo",),
    ),
    CommonField("name", "the job's name", "text", _everywhere("name")),
    CommonField("output", "name of the trained model", "text", _everywhere("output.name")),
    CommonField("description", "of the trained model", "text", _everywhere("output.description")),
    CommonField(
        "epochs",
        "how often each row is learned",
        "whole",
        _places("schedule.epochs", "schedule.epochs", "training.epochs"),
    ),
    CommonField(
        "max_steps",
        "optimizer steps; wins over epochs",
        "whole",
        _places("schedule.max_steps", "schedule.max_steps", "training.max_steps"),
    ),
    CommonField(
        "learning_rate",
        "at its highest",
        "number",
        _places("optimizer.learning_rate", "optimizer.learning_rate", "training.learning_rate"),
    ),
    CommonField(
        "min_learning_rate",
        "where a cosine decay ends",
        "number",
        _places("optimizer.min_learning_rate", "", "training.min_learning_rate"),
    ),
    CommonField(
        "warmup_steps",
        "steps in which the learning rate rises",
        "whole",
        _places("optimizer.warmup_steps", "schedule.warmup_steps", "training.warmup_steps"),
    ),
    CommonField(
        "weight_decay",
        "of the optimizer",
        "number",
        _places("optimizer.weight_decay", "optimizer.weight_decay", "training.weight_decay"),
    ),
    CommonField(
        "adam_beta1",
        "of the optimizer",
        "number",
        _places("optimizer.adam_beta1", "optimizer.adam_beta1", "training.adam_beta1"),
    ),
    CommonField(
        "adam_beta2",
        "of the optimizer",
        "number",
        _places("optimizer.adam_beta2", "optimizer.adam_beta2", "training.adam_beta2"),
    ),
    CommonField(
        "adam_epsilon",
        "of the optimizer",
        "number",
        _places("optimizer.adam_eps", "optimizer.adam_epsilon", "training.adam_eps"),
    ),
    CommonField(
        "max_grad_norm",
        "gradients are scaled down to it",
        "number",
        _places("", "optimizer.max_grad_norm", "training.max_grad_norm"),
    ),
    CommonField(
        "batch_size",
        "rows of an optimizer step, over all devices",
        "whole",
        _places("batch.global_batch_size", "batch.gradient_accumulation_steps", "training.batch_size"),
    ),
    CommonField(
        "micro_batch_size",
        "rows at once on a device",
        "whole",
        _places("batch.micro_batch_size", "batch.per_device_train_batch_size", "training.micro_batch_size"),
    ),
    CommonField(
        "max_seq_length",
        "the longest row, in tokens",
        "whole",
        _places("training.max_seq_length", "model.max_seq_length", "training.max_seq_length"),
    ),
    CommonField(
        "seed",
        "of the order of the rows, and of all chance",
        "whole",
        _places("schedule.seed", "schedule.seed", "training.seed"),
    ),
    CommonField(
        "finetuning",
        "adapters beside frozen weights, or all weights",
        "text",
        _everywhere("training.finetuning_type"),
        choices=("lora", "all_weights"),
    ),
    CommonField("lora_rank", "rank of the adapters", "whole", _everywhere("training.lora.rank")),
    CommonField("lora_alpha", "scale of the adapters", "whole", _everywhere("training.lora.alpha")),
    CommonField(
        "lora_dropout", "dropout in front of the adapters", "number", _everywhere("training.lora.dropout")
    ),
    CommonField(
        "lora_target_modules",
        "layers that get adapters, with commas between",
        "words",
        _everywhere("training.lora.target_modules"),
    ),
    CommonField(
        "activation_checkpointing",
        "less memory for more time",
        "flag",
        _places(
            "training.activation_checkpointing",
            "training.use_gradient_checkpointing",
            "training.activation_checkpointing",
        ),
    ),
    CommonField(
        "precision",
        "numbers that are computed with",
        "text",
        _places("training.precision", "hardware.precision"),
        ("sft",),
        choices=("bf16", "fp32", "fp16"),
    ),
    CommonField(
        "load_in_4bit",
        "the frozen weights in 4 bits (QLoRA), on a GPU",
        "flag",
        _places(unsloth="model.load_in_4bit"),
        ("sft",),
    ),
    CommonField(
        "packing",
        "several rows in one sequence, on a GPU",
        "flag",
        _places(unsloth="dataset.packing"),
        ("sft",),
    ),
    CommonField(
        "overlong",
        "rows beyond max_seq_length lose their end, are left out, or are an error",
        "text",
        _everywhere("rows.overlong"),
        ("sft", "dpo"),
        choices=("truncate", "drop", "error"),
    ),
    CommonField(
        "learned_turns",
        "of conversations: all of the text, the assistant's turns, or the last of them",
        "text",
        _everywhere("rows.learned_turns"),
        ("sft",),
        choices=("all", "assistant", "last"),
    ),
    CommonField(
        "chat_template",
        "a file with a Jinja template in the place of the model's own",
        "source",
        _everywhere("rows.chat_template"),
    ),
    CommonField(
        "gpus",
        "devices of a node",
        "whole",
        _places("parallelism.num_gpus_per_node", "hardware.gpus", "training.parallelism.num_gpus_per_node"),
    ),
    CommonField(
        "beta",
        "how much staying near the model as it was counts",
        "number",
        _places(rl="training.ref_policy_kl_penalty"),
        _RL,
    ),
    CommonField(
        "num_generations",
        "answers to each prompt",
        "whole",
        _places(rl="training.num_generations_per_prompt"),
        ("grpo",),
    ),
    CommonField(
        "max_new_tokens",
        "the longest answer, in tokens",
        "whole",
        _places(rl="training.max_new_tokens"),
        ("grpo",),
    ),
    CommonField("temperature", "of the answers", "number", _places(rl="training.temperature"), ("grpo",)),
)
BY_NAME: Final[Mapping[str, CommonField]] = {field.name: field for field in FIELDS}
_COUNTED: Final = ("unsloth", "batch_size")
"""The one backend that counts micro-batches where the others count rows."""

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sft": {
        "finetuning": "lora",
        "batch_size": 8,
        "micro_batch_size": 1,
        "learned_turns": "assistant",
    },
    "dpo": {"finetuning": "lora", "batch_size": 16, "micro_batch_size": 1},
    "grpo": {"finetuning": "lora", "batch_size": 32, "micro_batch_size": 1},
}
"""What is taken where a spec says nothing, so that it does not depend on the backend."""
RATES: Final[Mapping[str, Mapping[str, float]]] = {
    "sft": {"lora": 2e-4, "all_weights": 1e-5},
    "dpo": {"lora": 1e-5, "all_weights": 1e-6},
    "grpo": {"lora": 1e-5, "all_weights": 1e-6},
}
"""Learning rates likewise, by what is trained."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "base_model": "model",
    "model_name": "model",
    "model_name_or_path": "model",
    "datasets": "data",
    "dataset_name": "data",
    "train_file": "data",
    "output_dir": "output",
    "run_name": "name",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "lr": "learning_rate",
    "train_batch_size": "batch_size",
    "per_device_train_batch_size": "micro_batch_size",
    "sequence_len": "max_seq_length",
    "cutoff_len": "max_seq_length",
    "max_length": "max_seq_length",
    "model_max_length": "max_seq_length",
    "finetuning_type": "finetuning",
    "adapter": "finetuning",
    "lora_r": "lora_rank",
    "lora_target": "lora_target_modules",
    "gradient_checkpointing": "activation_checkpointing",
    "sample_packing": "packing",
    "pref_beta": "beta",
    "max_completion_length": "max_new_tokens",
    "bf16": "precision",
}
"""Names that other programs have for the same, to suggest ours."""


def weighted_sources(value: Any) -> list[tuple[str, float]]:
    """Data as somebody wrote them, one or several, each with its weight.

    ``rows.jsonl``, a list of such, or a list of objects with ``data`` and ``weight``. Raises `ValueError` in
    one sentence.
    """
    found: list[tuple[str, float]] = []
    for one in value if isinstance(value, list) else [value]:
        source, weight = (one.get("data"), one.get("weight", 1)) if isinstance(one, Mapping) else (one, 1)
        if not isinstance(source, str) or (isinstance(one, Mapping) and set(one) - {"data", "weight"}):
            raise ValueError("write a name, or {data: NAME, weight: NUMBER}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1000:
            raise ValueError(f"the weight of {source} must be a number above 0 and at most 1000")
        if source in dict(found):
            raise ValueError(f"{source} is named twice; give it one weight")
        found.append((source, float(weight)))
    if not found:
        raise ValueError("name at least one data set")
    return found


def fields_of(method: str) -> tuple[CommonField, ...]:
    """The fields that a method has."""
    return tuple(field for field in FIELDS if method in field.methods)


def place(name: str, backend: str) -> Path | None:
    """Where a backend has a field; `None`: it has none."""
    found = BY_NAME[name].places.get(backend)
    return tuple(found.split(".")) if found else None


def aliases() -> Mapping[str, str]:
    """Dotted path in any backend's spec → the common name of what it means."""
    return dict(_aliases())


def _aliases() -> Iterator[tuple[str, str]]:
    for field in FIELDS:
        for backend, path in field.places.items():
            if (backend, field.name) != _COUNTED and path != "dataset":
                yield path, field.name
    yield "dataset", "data"


def beginning(method: str, backend: str) -> dict[str, Any]:
    """What a backend's spec says of a method, where the backend does several."""
    return {"training": {"type": method}} if backend == "rl" else {}


def defaults(method: str, backend: str, given: Collection[str], finetuning: Any) -> dict[str, Any]:
    """Values of common fields that nobody gave; ``given`` are the names of the fields that somebody gave."""
    rates = RATES[method]
    found = {**DEFAULTS[method], "learning_rate": rates.get(str(finetuning), rates["lora"])}
    if backend == "unsloth":
        found["load_in_4bit"] = False
        if "batch.gradient_accumulation_steps" in given:
            del found["batch_size"]
        if "model.load_in_8bit" in given:
            del found["load_in_4bit"]
    return {name: value for name, value in found.items() if name not in given}


def value_for(backend: str, name: str, value: Any, micro: Any) -> Any:
    """A common field's value as a backend has it; `ValueError` with a phrase where it has none.

    ``micro`` is the spec's ``micro_batch_size``.
    """
    if (backend, name) == _COUNTED and isinstance(value, int) and isinstance(micro, int) and micro > 0:
        if value % micro:
            raise ValueError(f"{value} cannot be divided by micro_batch_size {micro}")
        return value // micro
    if (backend, name) == ("unsloth", "activation_checkpointing") and isinstance(value, bool):
        return str(value).lower()
    return value
