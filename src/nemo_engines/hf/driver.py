"""The driver of TRL; unsloth's is this one with another way of loading the model."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from peft import PeftModel
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_callback import PrinterCallback

from nemo_engines.data.chat_templates import TemplateWriter, with_template
from nemo_engines.errors import BadSpecError, CheckpointUnusableError, setting_up
from nemo_engines.hf import ending, trainers
from nemo_engines.hf.callback import ContractCallback, clear_unfinished
from nemo_engines.metric_watch import MetricWatch
from nemo_engines.running import TrainingRun
from nemo_engines.saving import check_metric, choose_best, not_saved
from nemo_engines.spec import EngineSpec

warnings.filterwarnings("ignore", message=".*gradient_checkpointing.* is deprecated")
datasets.disable_progress_bars()
transformers.utils.logging.disable_progress_bar()

_USUAL = frozenset(["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
"""Where nobody chooses, these are named, and those that a model has are meant."""
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class TrlDriver:
    """Trains with TRL on transformers' loop."""

    def train(self, run: TrainingRun) -> None:
        """Train to the end, or leave the process at a pause; the trained model is then in ``run.staging``."""
        if run.world.leads:
            clear_unfinished(run.work)
        ending.check_files(run.spec)
        check_metric(run.spec)
        callback = ContractCallback(run, validates=run.validation_rows is not None)
        trainer = self._trainer(run, callback)
        ending.rehearse(
            run,
            trainer.accelerator.unwrap_model(trainer.model),
            trainer.processing_class,
            configurations=ending.writes_whole_model(run.spec),
        )
        checkpoint = _shared(run, run.checkpoint.folder if run.checkpoint else None)
        ended = callback.settle() if checkpoint is not None else False
        if checkpoint is not None and (ended or _is_final(checkpoint)):
            _load_weights(trainer, checkpoint)
        else:
            self._train(run, trainer, callback, checkpoint)
        _choose_weights(run, trainer, callback.watch)
        if run.world.leads:
            self.save(run, trainer.accelerator.unwrap_model(trainer.model), trainer.processing_class)

    def model(self, run: TrainingRun) -> tuple[Any, dict[str, Any] | None]:
        """What TRL takes as model, and with which options it loads it."""
        options: dict[str, Any] = {"dtype": weights_dtype(run)}
        if run.spec.attn_implementation is not None:
            options["attn_implementation"] = run.spec.attn_implementation
        if run.spec.trust_remote_code:
            options["trust_remote_code"] = True
        if run.spec.adapter is not None:
            base = AutoModelForCausalLM.from_pretrained(run.spec.model, **options)
            return PeftModel.from_pretrained(base, run.spec.adapter, is_trainable=True), None
        return run.spec.model, options

    def tokenizer(self, run: TrainingRun, _model: Any) -> Any:
        """The tokenizer that goes with the model."""
        return load_tokenizer(run.spec)

    def writer(self, spec: EngineSpec) -> tuple[TemplateWriter, Any]:
        """What writes the rows of a run, and the tokenizer that it writes with; no weights are loaded."""
        ending.check_files(spec)
        with setting_up():
            tokenizer = load_tokenizer(spec)
            return trainers.writer(spec, tokenizer), tokenizer

    def save(self, run: TrainingRun, model: Any, tokenizer: Any) -> None:
        """Write the trained model and its tokenizer into ``run.staging``."""
        if run.spec.output_method == "merged":
            model = model.merge_and_unload()
        # beside an adapter that is trained on there is one more, its copy from the start
        chosen = {} if run.spec.adapter is None else {"selected_adapters": ["default"]}
        model.save_pretrained(run.staging, safe_serialization=True, **chosen)
        tokenizer.save_pretrained(run.staging)

    def _trainer(self, run: TrainingRun, callback: ContractCallback) -> Any:
        with setting_up():
            model, options = self.model(run)
            trainer = trainers.build(
                run,
                model=model,
                model_options=options,
                tokenizer=self.tokenizer(run, model),
                callback=callback,
            )
        trainer.remove_callback(PrinterCallback)
        if run.spec.finetuning == "lora" and run.spec.adapter is None:
            _require_modules(run, trainer.model)
        return trainer

    def _train(
        self, run: TrainingRun, trainer: Any, callback: ContractCallback, checkpoint: Path | None
    ) -> None:
        if checkpoint is not None:
            _restore_counters(trainer, checkpoint)
        guarded = contextlib.nullcontext() if checkpoint else setting_up(lambda: not callback.begun)
        try:
            with guarded:
                trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        except (OSError, RuntimeError, SafetensorError) as error:
            if callback.saving is None:
                raise
            folder = run.work / f"checkpoint-{callback.saving}"
            raise not_saved(folder, callback.saving, error) from error


def load_tokenizer(spec: EngineSpec) -> Any:
    """The tokenizer in a model's folder."""
    found = AutoTokenizer.from_pretrained(spec.model, trust_remote_code=spec.trust_remote_code)
    if len(found) <= len(found.all_special_tokens):
        # the library makes an empty one where the files are missing
        raise BadSpecError(f"the model {spec.model} has no files of a tokenizer")
    return with_template(spec, found)


def weights_dtype(run: TrainingRun) -> torch.dtype:
    """Weights that are trained are kept in fp32 and computed with in the run's precision; frozen ones are
    not."""
    return torch.float32 if run.spec.finetuning == "full" else _DTYPES[run.precision]


def _require_modules(run: TrainingRun, model: Any) -> None:
    """Names that the model does not have are left out by the library without a word."""
    lora, names = run.spec.lora, [f".{name}." for name, _ in model.named_modules()]
    chosen = () if _USUAL.issuperset(lora.target_modules or ()) else lora.target_modules
    given = {
        "target_modules": chosen,
        "exclude_modules": lora.exclude_modules,
        "modules_to_save": lora.modules_to_save,
    }
    for field, wanted in given.items():
        for module in wanted or ():
            if not any(f".{module}." in name for name in names):
                raise BadSpecError(f"lora.{field}: the model has no module '{module}'")


def _shared(run: TrainingRun, folder: Path | None) -> Path | None:
    """The folder that rank 0 has chosen; the other ranks know only a part of what it knows."""
    chosen = [None if folder is None else str(folder)]
    if run.world.size > 1:
        torch.distributed.broadcast_object_list(chosen, src=0)
    return None if chosen[0] is None else Path(chosen[0])


def _is_final(folder: Path) -> bool:
    from nemo_trainer.contract import read_manifest  # noqa: PLC0415

    return read_manifest(folder).reason == "final"


def _restore_counters(trainer: Any, folder: Path) -> None:
    """The count of tokens that the library keeps in memory only, so that its curve goes on where it was."""
    from transformers import TrainerState  # noqa: PLC0415

    try:
        history = TrainerState.load_from_json(str(folder / "trainer_state.json")).log_history
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointUnusableError(f"{folder}: has no usable trainer_state.json: {error}") from error
    counts = [entry["num_tokens"] for entry in history if entry.get("num_tokens") is not None]
    if counts and hasattr(trainer, "_total_train_tokens"):
        trainer._total_train_tokens = int(counts[-1])  # noqa: SLF001 - it is saved nowhere


def _load_weights(trainer: Any, folder: Path) -> None:
    trainer._load_from_checkpoint(str(folder))  # noqa: SLF001 - the loop that calls it would train on


def _choose_weights(run: TrainingRun, trainer: Any, watch: MetricWatch) -> None:
    """Put the best checkpoint's weights into the model where that was asked for."""
    best = _shared(run, choose_best(run, watch) if run.world.leads else None)
    if best is not None:
        _load_weights(trainer, best)
