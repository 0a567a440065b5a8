"""TRL's trainers, built of a run. Adapters go in as a configuration, never as a wrapped model.

A model that was wrapped before gets a second adapter named "ref" from DPO and GRPO; some versions then load
only that
one from a checkpoint and silently drop what was trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from nemo_engines.hf.arguments import arguments, lora_arguments
from nemo_engines.rewards import ROW, Rewards
from nemo_engines.rows import Row
from nemo_engines.running import Run

_CLASSES = {"sft": (SFTTrainer, SFTConfig), "dpo": (DPOTrainer, DPOConfig), "grpo": (GRPOTrainer, GRPOConfig)}


def build(
    run: Run, *, model: Any, model_options: dict[str, Any] | None, tokenizer: Any, callback: Any
) -> Any:
    """The trainer of the spec's method; ``model`` is a folder, or, for SFT only, a model that is loaded with
    its
    adapters in place."""
    trainer, config = _CLASSES[run.spec.method]
    options = arguments(run)
    if model_options is not None:
        options["model_init_kwargs"] = model_options
    given: dict[str, Any] = {
        "model": model,
        "args": config(**options),
        "train_dataset": Dataset.from_list(run.rows),
        "eval_dataset": _dataset(run.validation_rows),
        "processing_class": tokenizer,
        "peft_config": _adapters(run) if isinstance(model, str) else None,
        "callbacks": [callback],
    }
    if run.rewards is not None:
        given["reward_funcs"] = _reward_function(run.rewards, run.spec.grpo.max_new_tokens, tokenizer)
    return trainer(**given)


def _adapters(run: Run) -> LoraConfig | None:
    return LoraConfig(**lora_arguments(run.spec)) if run.spec.finetuning == "lora" else None


def _dataset(rows: list[Row] | None) -> Any:
    return None if rows is None else Dataset.from_list(rows)


def _reward_function(rewards: Rewards, limit: int, tokenizer: Any) -> Any:
    def benchmark(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **columns: Any
    ) -> list[float]:
        answers = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
        cut = [len(ids) >= limit and ids[-1] != tokenizer.eos_token_id for ids in completion_ids]
        return rewards.grade(columns[ROW], answers, cut=cut)

    return benchmark
