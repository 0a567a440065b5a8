"""Writing a model as an adapter, merged weights or a GGUF file: whole under its name, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nemo_engines.export import formats
from nemo_models import engine, weights
from nemo_models.errors import ModelsError
from nemo_models.local_models import LocalModel, check_space
from nemo_runs.durable.files import replace_file
from nemo_runs.sizes import size_in_words

Target = Literal["adapter", "merged", "gguf"]
TARGETS: tuple[Target, ...] = ("adapter", "merged", "gguf")
RECORD = "nemo-export.json"
"""What lies in an exported folder: where it comes from, and the digest of each file."""
_BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
_SPARE = 64 << 20
"""Bytes beside the weights, for the tokenizer and for what else a disk needs."""


@dataclass(frozen=True, slots=True)
class ModelExport:
    """What is written, and where."""

    model: LocalModel
    target: Target
    output: Path
    numbers: str = "f16"
    """Of a GGUF file: one of `formats.TYPES`."""
    facts: Mapping[str, Any] | None = None
    """Of the training, for the record beside the files."""


def check_numbers(numbers: str) -> None:
    """Raise `ModelsError` for numbers that cannot be written, saying who can write them."""
    if numbers in formats.TYPES:
        return
    if numbers in formats.ELSEWHERE:
        raise ModelsError(
            f"--quantize {numbers} is written by llama.cpp's own program alone: export f16, and run "
            f"`llama-quantize FILE.gguf SMALLER.gguf {numbers.upper()}`"
        )
    raise ModelsError(f"--quantize {numbers}: there is {', '.join(formats.TYPES)}")


def covered(model: LocalModel) -> str:
    """Which architectures GGUF covers, and what the model is; raises `ModelsError` for others."""
    plain = model.base.folder if model.adapter and model.base is not None else model.folder
    kind = weights.model_type(plain)
    known = ", ".join(formats.ARCHITECTURES)
    if kind not in formats.ARCHITECTURES:
        raise ModelsError(
            f"{model.shown} is of the type '{kind}', and GGUF files are written of {known} alone: a file of "
            "another type would load and answer nonsense; export --to merged, and convert that folder by "
            "llama.cpp's convert_hf_to_gguf.py"
        )
    return f"GGUF files are written of {known}; {model.shown} is of the type {kind}."


def check(request: ModelExport) -> None:
    """Raise `ModelsError` for what can be known before any work: the kind, the place and the disk."""
    model, output = request.model, request.output
    if request.target == "adapter" and not model.adapter:
        raise ModelsError(
            f"{model.shown} is a whole model, which has no adapter: --to merged copies its weights"
        )
    if output.exists() and request.target != "gguf":
        raise ModelsError(f"{output} is there already: name another place by -o, or remove it")
    if output.is_dir():
        raise ModelsError(f"{output} is a folder: name the file to write, as in {output / 'model.gguf'}")
    folder = output.absolute().parent
    if not folder.is_dir():
        raise ModelsError(f"there is no folder {folder} to write into")
    if not os.access(folder, os.W_OK):
        raise ModelsError(f"nothing can be written into {folder}")
    check_space(folder, needed(request), f"{output.name} and what is beside it")


def needed(request: ModelExport) -> int:
    """About how many bytes the export takes."""
    model = request.model
    plain = model.base.folder if model.adapter and model.base is not None else model.folder
    whole = weights.size_of(plain)
    if request.target == "adapter":
        return weights.size_of(model.folder) + _SPARE
    if request.target == "merged":
        return whole + _SPARE
    return int(whole / _bytes_a_weight(plain) * formats.BYTES_A_WEIGHT[request.numbers]) + _SPARE


def _bytes_a_weight(folder: Path) -> int:
    try:
        config = json.loads((folder / weights.CONFIG).read_bytes())
        return _BYTES.get(str(config.get("dtype") or config.get("torch_dtype")), 4)
    except (OSError, ValueError):
        return 4


def write(request: ModelExport, report: Callable[[str], None]) -> dict[str, Any]:
    """Write it, and say what was written; raises `ModelsError`, and leaves nothing half done."""
    found: dict[str, Any] = {"format": request.target, "path": str(request.output)}
    if request.target == "gguf":
        return {**found, **_gguf(request, report)}
    if request.model.adapter and request.target == "merged":
        return {**found, **_merged(request, report)}
    return {**found, **_copied(request)}


def _gguf(request: ModelExport, report: Callable[[str], None]) -> dict[str, Any]:
    model = request.model
    arguments = [str(model.folder), str(request.output)]
    arguments += ["--base", str(model.base.folder)] if model.base is not None else []
    report(f"writes {request.output.name} with numbers of the type {request.numbers} …")
    engine.find().answer("nemo_engines.export.gguf", *arguments, "--type", request.numbers)
    digest = weights.file_digest(request.output)
    line = f"{digest}  {request.output.name}\n"
    replace_file(request.output.with_name(f"{request.output.name}.sha256"), line.encode())
    return {
        "numbers": request.numbers,
        "bytes": request.output.stat().st_size,
        "digest": f"sha256:{digest}",
    }


def _merged(request: ModelExport, report: Callable[[str], None]) -> dict[str, Any]:
    """Merge beside the place, add the record, and give the folder its name."""
    model = request.model
    assert model.base is not None
    report(f"merges {model.shown} into {model.base.shown}, and compares the logits …")
    with _partial(request.output) as partial:
        arguments = [str(model.folder), str(partial), "--base", str(model.base.folder)]
        compared = engine.find().answer("nemo_engines.export.merged", *arguments)
        _finish(request, partial, compared)
    return {**compared, **_sizes(request.output)}


def _copied(request: ModelExport) -> dict[str, Any]:
    with _partial(request.output) as partial:
        for name, path in weights.files_of(request.model.folder):
            target = partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
                copy.flush()
                os.fsync(copy.fileno())
        _finish(request, partial, {})
    return _sizes(request.output)


@contextmanager
def _partial(output: Path) -> Iterator[Path]:
    """A folder beside the place, which does not outlive a failure."""
    partial = output.with_name(f".{output.name}.part-{os.getpid()}")
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _finish(request: ModelExport, partial: Path, more: Mapping[str, Any]) -> None:
    model = request.model
    record = {
        "format": request.target,
        "model": model.shown,
        "model_digest": model.digest,
        "base_model": model.base.shown if model.base else model.record.get("base_model"),
        **more,
        "training": dict(request.facts or {}),
        "files": {name: weights.file_digest(path) for name, path in weights.files_of(partial)},
    }
    replace_file(partial / RECORD, json.dumps(record, indent=2).encode() + b"\n")
    partial.rename(request.output)


def _sizes(folder: Path) -> dict[str, Any]:
    return {
        "bytes": sum(path.stat().st_size for _, path in weights.files_of(folder)),
        "digest": weights.digest_of(folder),
    }


def sentence(done: Mapping[str, Any]) -> str:
    """What was written, for a person."""
    words = f"{done['path']}: {size_in_words(done['bytes'])}, {done['digest']}"
    if "difference" in done:
        words += (
            f"; its logits are within {done['difference']:.1g} of those of base and adapter, as a share of "
            f"the largest ({done['tolerance']:g} are allowed for {done['numbers']})"
        )
    return words
