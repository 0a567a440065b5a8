"""The driver of NeMo Automodel: its recipe, in this process, so that the contract can reach into it."""

from __future__ import annotations

import dataclasses
import fnmatch
import shutil
from pathlib import Path
from typing import Any

import yaml
from nemo_automodel.components.config.loader import ConfigNode

from nemo_engines.automodel import config, cpu, data
from nemo_engines.automodel.recipe import REPORTED, ControlledRecipe
from nemo_engines.data import learned
from nemo_engines.data.chat_templates import TemplateWriter
from nemo_engines.data.learned import Tokens
from nemo_engines.data.rows import Row
from nemo_engines.errors import BadSpecError, setting_up
from nemo_engines.evaluation.evaluations import Evaluations
from nemo_engines.hf import ending
from nemo_engines.metric_watch import MetricWatch
from nemo_engines.running import TrainingRun
from nemo_engines.saving import check_metric, choose_best, opened_watch
from nemo_engines.spec import EngineSpec
from nemo_trainer.contract import Checkpoint

FOLDER = "automodel"
_ = data.token_rows  # the configuration names it, and the library takes only what is loaded


class AutomodelDriver:
    """Trains with the library's recipe for supervised fine-tuning."""

    def train(self, run: TrainingRun) -> None:
        """Train to the end, or leave the process at a pause; the trained model is then in ``run.staging``."""
        config.check(run)
        _check_ending(run.spec)
        check_metric(run.spec, REPORTED)
        watch = opened_watch(run)
        evaluations = Evaluations(run, watch, _weights)
        # of several processes only the first knows the checkpoint yet; together they find nothing left to do
        if run.world.size > 1 or not _is_final(run.checkpoint):
            _train(run, watch, evaluations)
        elif evaluations.settle().leaves:
            run.leave()
        if run.world.leads:
            _export(run, _chosen(run, watch))

    def writer(self, spec: EngineSpec) -> tuple[TemplateWriter, Any]:
        """What writes the rows of a run, and the tokenizer that it writes with; no weights are loaded."""
        _check_ending(spec)
        with setting_up():
            tokenizer = data.tokenizer_of(spec)
            return data.writer(spec, tokenizer), tokenizer


def _check_ending(spec: EngineSpec) -> None:
    """Only merging writes the base's own files in a way that may refuse them."""
    if spec.output_method == "merged":
        ending.check_files(spec)


def _is_final(checkpoint: Checkpoint | None) -> bool:
    return checkpoint is not None and checkpoint.manifest.reason == "final"


def _train(run: TrainingRun, watch: MetricWatch, evaluations: Evaluations) -> None:
    folder = run.work / FOLDER
    if run.world.leads:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if run.validation_rows is not None:
            data.write(
                folder / "validation.jsonl",
                _tokens(run, "validation", run.validation_rows)[1],
                run.spec.max_seq_length,
            )
    if run.world.leads or run.spec.data.overlong == "drop":
        rows, found = _tokens(run, "training", run.rows)
        if run.world.leads:
            data.write(folder / "train.jsonl", found, run.spec.max_seq_length)
        run = dataclasses.replace(run, rows=rows)
    rendered = config.render(run, folder)
    if run.world.leads:
        (folder / "config.yaml").write_text(yaml.safe_dump(rendered, sort_keys=False), encoding="utf-8")
    if run.device == "cpu":
        cpu.adapt()
    recipe = _set_up(run, rendered, watch, evaluations)
    _rehearse(run, recipe)
    if not recipe.settle():
        recipe.run_train_validation_loop()


def _weights(checkpoint: Path) -> Path:
    """The part of a checkpoint that transformers or peft loads."""
    whole = checkpoint / "model" / "consolidated"
    return whole if whole.is_dir() else checkpoint / "model"


def _set_up(
    run: TrainingRun, rendered: dict[str, Any], watch: MetricWatch, evaluations: Evaluations
) -> ControlledRecipe:
    with setting_up():
        recipe = ControlledRecipe(ConfigNode(rendered), run, watch, evaluations)
        recipe.setup()
    _require_targets(run, recipe)
    return recipe


def _rehearse(run: TrainingRun, recipe: ControlledRecipe) -> None:
    """Try what the end writes beside the weights; only merging goes through transformers for all of it."""
    model = recipe.bare_model()
    with ending.saved_as("config.json", Path(run.spec.model)):
        model.config.to_json_string(use_diff=False)
    ending.rehearse(
        run,
        model,
        recipe.tokenizer,
        configurations=run.spec.output_method == "merged",
        copies=2,  # what it trains on, and the same in transformers' layout
    )


def _require_targets(run: TrainingRun, recipe: ControlledRecipe) -> None:
    """Names that the model does not have are left out by the library without a word."""
    lora, names = run.spec.lora, [name for part in recipe.model_parts for name, _ in part.named_modules()]
    given = {"target_modules": lora.target_modules, "exclude_modules": lora.exclude_modules}
    for field, wanted in given.items() if run.spec.finetuning == "lora" else ():
        for pattern in wanted or ():
            if not any(fnmatch.fnmatchcase(f".{name}", f"*.{pattern}") for name in names):
                raise BadSpecError(f"lora.{field}: the model has no module '{pattern}'")


def _tokens(run: TrainingRun, part: str, rows: list[Row]) -> tuple[list[Row], list[Tokens]]:
    """The rows that are trained on, and their tokens."""
    with setting_up():
        writer = data.writer(run.spec, data.tokenizer_of(run.spec))
        found = data.tokens_of(writer, rows)
    drops = run.spec.data.overlong == "drop"
    cut = learned.cut_tokens(found, run.spec.max_seq_length, drops=drops)
    run.warn_of_cut(part, rows, cut)
    run.warn_of_template(writer, part, rows, found)
    return (learned.kept(rows, cut), learned.kept(found, cut)) if drops else (rows, found)


def _chosen(run: TrainingRun, watch: MetricWatch) -> Path:
    """The checkpoint whose weights become the trained model."""
    published = run.session.published
    if published is None:
        raise BadSpecError("nothing was trained, so there is no model to write")
    return choose_best(run, watch) or published.folder


def _export(run: TrainingRun, checkpoint: Path) -> None:
    """The trained model in the layout of transformers (or of peft, for an adapter)."""
    if run.spec.finetuning == "full":
        shutil.copytree(checkpoint / "model" / "consolidated", run.staging, dirs_exist_ok=True)
    else:
        shutil.copytree(checkpoint / "model", run.staging, dirs_exist_ok=True)
        if run.spec.output_method == "merged":
            _merge(run)
    if run.spec.data.chat_template is not None:
        data.tokenizer_of(run.spec).save_pretrained(run.staging)


def _merge(run: TrainingRun) -> None:
    from peft import PeftModel  # noqa: PLC0415 - only merging needs them
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    base = AutoModelForCausalLM.from_pretrained(run.spec.model, trust_remote_code=run.spec.trust_remote_code)
    merged = PeftModel.from_pretrained(base, str(run.staging)).merge_and_unload()
    tokenizer = AutoTokenizer.from_pretrained(run.spec.model, trust_remote_code=run.spec.trust_remote_code)
    shutil.rmtree(run.staging)
    merged.save_pretrained(run.staging, safe_serialization=True)
    tokenizer.save_pretrained(run.staging)
