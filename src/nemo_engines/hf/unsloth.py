"""The driver of Unsloth: TRL's, with Unsloth's models.

Unsloth changes the libraries that it builds on, so it is imported before all of them. Its licence is the
AGPL-3.0: this module calls it in the process of the engine, and holds none of its code.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("UNSLOTH_DISABLE_STATISTICS", "1")

import unsloth  # before trl and transformers, which it changes

from nemo_engines.data.chat_templates import with_template
from nemo_engines.errors import BadSpecError
from nemo_engines.hf.arguments import lora_arguments
from nemo_engines.hf.driver import TrlDriver, weights_dtype
from nemo_engines.running import TrainingRun


class UnslothDriver(TrlDriver):
    """Trains with Unsloth's models on TRL's trainer."""

    def __init__(self) -> None:
        self._tokenizer: Any = None

    def model(self, run: TrainingRun) -> tuple[Any, dict[str, Any] | None]:
        """The loaded model, its adapters in place: for SFT a wrapped model is safe, see `trainers`."""
        _check(run)
        spec = run.spec
        checkpointing = "unsloth" if spec.activation_checkpointing else False
        model, self._tokenizer = unsloth.FastLanguageModel.from_pretrained(
            model_name=spec.model,
            max_seq_length=spec.max_seq_length,
            dtype=weights_dtype(run),
            load_in_4bit=spec.load_in_4bit,
            load_in_8bit=spec.load_in_8bit,
            full_finetuning=spec.finetuning == "full",
            trust_remote_code=spec.trust_remote_code,
            attn_implementation=spec.attn_implementation,
            use_gradient_checkpointing=checkpointing,
            local_files_only=True,
        )
        if spec.finetuning == "lora":
            model = unsloth.FastLanguageModel.get_peft_model(
                model,
                use_gradient_checkpointing=checkpointing,
                random_state=spec.seed if spec.lora.random_state is None else spec.lora.random_state,
                **_adapters(run),
            )
        return model, None

    def tokenizer(self, run: TrainingRun, _model: Any) -> Any:
        """The tokenizer as Unsloth has set it up for the model."""
        return with_template(run.spec, self._tokenizer)

    def save(self, run: TrainingRun, model: Any, tokenizer: Any) -> None:
        """Merging goes through Unsloth, which reads the weights again where they were loaded with 4 bits."""
        if run.spec.output_method == "merged" and run.spec.finetuning == "lora":
            model.save_pretrained_merged(str(run.staging), tokenizer, save_method="merged_16bit")
        else:
            super().save(run, model, tokenizer)


def _adapters(run: TrainingRun) -> dict[str, Any]:
    """Its own names of peft's options; where no modules are named it chooses them itself."""
    given = lora_arguments(run.spec)
    given.pop("task_type")
    if not run.spec.lora.use_dora:
        given.pop("use_dora")
    if run.spec.lora.target_modules is None:
        given.pop("target_modules")
    return given


def _check(run: TrainingRun) -> None:
    """Refuse what Unsloth would quietly leave out."""
    if run.spec.extra:
        raise BadSpecError(f"extra.{min(run.spec.extra)} is not an option of engine 'unsloth'")
    if run.device != "cpu":
        return
    if run.spec.batch.packing:
        raise BadSpecError("batch.packing is not supported by engine 'unsloth' on a CPU: leave it out")
    if run.precision == "bf16" and not unsloth.is_bfloat16_supported():
        raise BadSpecError("precision 'bf16' is not supported by engine 'unsloth' on this CPU: use 'fp32'")
