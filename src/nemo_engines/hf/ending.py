"""What the end of a training needs, tried before its first step: an error at the end would cost all of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, GenerationConfig

from nemo_engines.errors import BadSpecError
from nemo_engines.running import TrainingRun
from nemo_engines.saving import check_space
from nemo_engines.spec import EngineSpec

_STATES = {"sgd": 0.0, "adamw_8bit": 0.5, "paged_adamw_8bit": 0.5}
"""Bytes of optimizer state for each byte of trained weights; 2 where nothing is said."""


def writes_whole_model(spec: EngineSpec) -> bool:
    """Whether the end writes all weights, with the configuration of the base model."""
    return spec.finetuning == "full" or spec.output_method == "merged"


def check_files(spec: EngineSpec) -> None:
    """Refuse a base model whose own files would keep the trained one from being saved; nothing is loaded."""
    if not writes_whole_model(spec):
        return
    folder = Path(spec.model)
    if _json(folder / "config.json").get("quantization_config"):
        raise BadSpecError(
            f"{folder / 'config.json'}: the model is quantized (quantization_config): it can be neither "
            "trained whole nor merged; save the adapter alone, or name the model's unquantized form"
        )
    if (folder / "generation_config.json").is_file():
        with saved_as("generation_config.json", folder):
            GenerationConfig.from_pretrained(folder).validate(strict=True)


def rehearse(run: TrainingRun, model: Any, tokenizer: Any, *, configurations: bool, copies: int = 1) -> None:
    """Save everything but the weights, as the end will do it, and look whether the weights will have space.

    ``configurations``: whether the end writes those of the model through transformers, which checks them.
    ``copies``: how often a checkpoint of whole weights holds them.
    """
    if not run.world.leads:
        return
    folder = run.work / "rehearsal"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        rehearse_files(run.spec, folder, model, tokenizer, configurations=configurations)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    checkpoint, output = saved_bytes(run.spec, model, copies=copies)
    run.session.expect_checkpoint(checkpoint)
    check_space({run.work: checkpoint, run.staging: output})


def rehearse_files(
    spec: EngineSpec, folder: Path, model: Any, tokenizer: Any, *, configurations: bool
) -> None:
    """Save configurations and tokenizer into a folder, and read the tokenizer again."""
    origin = Path(spec.model)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    if configurations:
        with saved_as("config.json", origin):
            base.config.save_pretrained(folder)
        if getattr(base, "generation_config", None) is not None:
            with saved_as("generation_config.json", origin):
                base.generation_config.save_pretrained(folder)
    if getattr(model, "peft_config", None):
        with saved_as("the adapter's configuration", origin):
            model.peft_config["default"].save_pretrained(folder)
    with saved_as("the tokenizer", origin):
        tokenizer.save_pretrained(folder)
        AutoTokenizer.from_pretrained(folder, trust_remote_code=spec.trust_remote_code)


@contextmanager
def saved_as(what: str, model: Path) -> Iterator[None]:
    """What a library refuses to save becomes a `BadSpecError` that names it."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        flags = re.findall(r"- `(\w+)`", str(error))
        said = f"the library refuses its {', '.join(flags)}" if flags else " ".join(str(error).split())[:300]
        raise BadSpecError(
            f"{model}: {what} cannot be saved, so that the trained model would be lost at the end: "
            f"{said}{_REMEDY.get(what, '')}"
        ) from error


_REMEDY = {
    "generation_config.json": "; correct that file: without do_sample it must not set temperature or top_p"
}


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def saved_bytes(spec: EngineSpec, model: Any, *, copies: int = 1) -> tuple[int, int]:
    """The sizes of a checkpoint and of the trained model; ``copies`` as in `rehearse`."""
    parts = list(model.parameters())
    everything = sum(part.numel() * part.element_size() for part in parts)
    trained = sum(part.numel() * part.element_size() for part in parts if part.requires_grad)
    states = _STATES.get(spec.optimizer.name, 2.0)
    checkpoint = copies * everything if spec.finetuning == "full" else trained
    output = everything if writes_whole_model(spec) else trained
    return checkpoint + int(states * trained), output
