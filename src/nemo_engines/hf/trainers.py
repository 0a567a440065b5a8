"""TRL's trainers, built of a run. Adapters go in as a configuration, never as a wrapped model.

A model that was wrapped before gets a second adapter named "ref" from DPO and GRPO; some versions then load
only that
one from a checkpoint and silently drop what was trained.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer
from trl.chat_template_utils import get_training_chat_template, has_generation_markers

from nemo_engines.data import learned
from nemo_engines.data.chat_templates import TemplateWriter
from nemo_engines.data.rows import Row
from nemo_engines.data.template_date import fix_day
from nemo_engines.hf.arguments import arguments, lora_arguments
from nemo_engines.rewards import ROW, Rewards
from nemo_engines.running import TrainingRun
from nemo_engines.spec import EngineSpec, answers_only


class PairTrainer(DPOTrainer):  # type: ignore[misc]  # the library has no types here
    """DPO on rows that are tokens already."""

    def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
        return dataset


_CLASSES = {
    "sft": (SFTTrainer, SFTConfig),
    "dpo": (PairTrainer, DPOConfig),
    "grpo": (GRPOTrainer, GRPOConfig),
}


def build(
    run: TrainingRun, *, model: Any, model_options: dict[str, Any] | None, tokenizer: Any, callback: Any
) -> Any:
    """The trainer of the spec's method; ``model`` is a folder, or, for SFT only, a model that is loaded with
    its
    adapters in place."""
    trainer, config = _CLASSES[run.spec.method]
    options = arguments(run)
    if model_options is not None:
        options["model_init_kwargs"] = model_options
    validation = run.validation_rows
    given: dict[str, Any] = {
        "model": model,
        "args": config(**options),
        "train_dataset": _dataset(run, "training", run.rows, tokenizer),
        "eval_dataset": None if validation is None else _dataset(run, "validation", validation, tokenizer),
        "processing_class": tokenizer,
        "peft_config": _adapters(run) if isinstance(model, str) else None,
        "callbacks": [callback],
    }
    if run.rewards is not None:
        given["reward_funcs"] = _reward_function(run.rewards, run.spec.grpo.max_new_tokens, tokenizer)
    return trainer(**given)


def writer(spec: EngineSpec, tokenizer: Any) -> TemplateWriter:
    """What writes the rows of a run. Some families' templates are replaced by ones that mark the answers."""
    fix_day()
    template, only = None, answers_only(spec)
    if only and not has_generation_markers(tokenizer.chat_template):
        with contextlib.suppress(ValueError):  # of a template that it does not know the answers are found
            template = get_training_chat_template(tokenizer)
    return TemplateWriter(tokenizer, assistant_only=only, template=template)


def _adapters(run: TrainingRun) -> LoraConfig | None:
    return LoraConfig(**lora_arguments(run.spec)) if run.spec.finetuning == "lora" else None


def _dataset(run: TrainingRun, part: str, rows: list[Row], tokenizer: Any) -> Dataset:
    """The rows as tokens. In a table of rows each would get the keys of all others, as null."""
    spec, write = run.spec, writer(run.spec, tokenizer)
    if spec.method == "grpo":
        prompts = _prompts(rows, write)
        run.warn_of_template(write, part, rows, ())
        return prompts
    if spec.method == "dpo":
        pairs = learned.made_of(rows, lambda row: learned.pair(write, row))
        cut = learned.cut_pairs(pairs, spec.max_seq_length, drops=spec.data.overlong == "drop")
        run.warn_of_cut(part, rows, cut)
        run.warn_of_template(write, part, rows, pairs)
        kept = learned.kept(pairs, cut)
        names = {"prompt_ids": "prompt", "chosen_ids": "chosen", "rejected_ids": "rejected"}
        return Dataset.from_dict(
            {name: [getattr(pair, field) for pair in kept] for name, field in names.items()}
        )
    found = learned.made_of(rows, lambda row: learned.tokens(write, row))
    drops = spec.data.overlong == "drop"
    cut = learned.cut_tokens(found, spec.max_seq_length, drops=drops)
    run.warn_of_cut(part, rows, cut)
    run.warn_of_template(write, part, rows, found)
    return Dataset.from_dict(learned.columns(learned.kept(found, cut) if drops else found))


def _prompts(rows: list[Row], write: TemplateWriter) -> Dataset:
    """Prompts as messages, for the trainer to write; each is tried first."""
    learned.made_of(rows, lambda row: write.conversation(row["prompt"], row, asks=True))

    def decoded(batch: dict[str, list[str]]) -> dict[str, list[Any]]:
        return {"prompt": [json.loads(text) for text in batch["prompt"]], ROW: batch[ROW]}

    prompts = [json.dumps(row["prompt"]) for row in rows]
    table = Dataset.from_dict({"prompt": prompts, ROW: [row[ROW] for row in rows]})
    return table.with_transform(decoded)


def _reward_function(rewards: Rewards, limit: int, tokenizer: Any) -> Any:
    def benchmark(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **columns: Any
    ) -> list[float]:
        answers = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
        cut = [len(ids) >= limit and ids[-1] != tokenizer.eos_token_id for ids in completion_ids]
        return rewards.grade(columns[ROW], answers, cut=cut)

    return benchmark
