"""``python -m nemo_engines.export.unpack FILE.gguf FOLDER``: the model in a file as a folder to train on.

The weights become plain 32-bit numbers: what was quantized stays as coarse as it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_engines.errors import BadSpecError, EngineUnavailableError, TrainerError
from nemo_engines.export.tokens import CONTROL, PATTERNS, USER_DEFINED


def main(argv: Sequence[str] | None = None) -> int:
    """Make the folder; the exit codes are those of trainings."""
    parser = argparse.ArgumentParser(
        prog="nemo_engines.export.unpack", description="Make a folder to train on of a file for llama.cpp."
    )
    parser.add_argument("file", type=Path, help="the .gguf file")
    parser.add_argument("folder", type=Path, help="a folder that is not there yet")
    options = parser.parse_args(argv)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    try:
        unpack(options.file, options.folder)
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def unpack(file: Path, folder: Path) -> None:
    """Make ``folder``, whole or not at all; `TrainerError` says why not."""
    if not file.is_file():
        raise BadSpecError(f"{file} does not exist, or is not a file")
    if folder.exists():
        raise BadSpecError(f"{folder} is there already: give another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        _unpack(file, partial)
        partial.rename(folder)
    except ImportError as error:
        raise EngineUnavailableError(f"{error}: use the environment of `nemo engines install trl`") from error
    except (ValueError, OSError, RuntimeError) as error:  # the library raises all of them for files
        raise BadSpecError(f"{file} cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack(file: Path, folder: Path) -> None:
    import torch  # noqa: PLC0415
    from gguf import GGUFReader  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, utils  # noqa: PLC0415

    utils.logging.disable_progress_bar()
    reader = GGUFReader(file)
    words = tokenizer({name: field.contents() for name, field in reader.fields.items()})
    packed = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    del packed.config.quantization_config
    tied = {"lm_head.weight"} if packed.config.tie_word_embeddings else set()
    places = len(set(packed.state_dict()) - tied)
    if places != len(reader.tensors):
        raise BadSpecError(
            f"{file} has {len(reader.tensors)} tensors, and the model that transformers makes of it has "
            f"places for {places}: something would be left out"
        )
    # The library refuses to save a model that it has read of such a file: a plain one takes over its weights.
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(packed.config, dtype=torch.float32)
    plain.load_state_dict(packed.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = packed.generation_config
    plain.save_pretrained(folder)
    words.save_pretrained(folder)


def tokenizer(said: Mapping[str, Any]) -> Any:
    """The tokenizer that a file's settings describe.

    The library's own reading of them differs from version to version: how digits are cut, which token ends.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, processors  # noqa: PLC0415
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    if said["tokenizer.ggml.model"] != "gpt2":
        raise BadSpecError(f"a tokenizer of type '{said['tokenizer.ggml.model']}' cannot be unpacked")
    names = said["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in said["tokenizer.ggml.merges"]]
    raw = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, merges))
    raw.pre_tokenizer = _cutting(said["tokenizer.ggml.pre"])
    raw.decoder = decoders.ByteLevel()
    for name, kind in zip(names, said["tokenizer.ggml.token_type"], strict=True):
        if kind in (CONTROL, USER_DEFINED):
            raw.add_tokens([AddedToken(name, normalized=False, special=kind == CONTROL)])
    keys = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    numbers = {name: said.get(f"tokenizer.ggml.{key}_token_id") for name, key in keys.items()}
    special = {f"{name}_token": names[number] for name, number in numbers.items() if number is not None}
    if said.get("tokenizer.ggml.add_bos_token"):
        begin = (special["bos_token"], numbers["bos"])
        raw.post_processor = processors.TemplateProcessing(single=f"{begin[0]} $A", special_tokens=[begin])
    made = PreTrainedTokenizerFast(tokenizer_object=raw, clean_up_tokenization_spaces=False, **special)
    made.chat_template = said.get("tokenizer.chat_template")
    return made


def _cutting(name: str) -> Any:
    from tokenizers import Regex, pre_tokenizers  # noqa: PLC0415

    if name == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    if name not in PATTERNS:
        raise BadSpecError(f"a tokenizer that cuts text as '{name}' cannot be unpacked")
    split = pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, bytes_only])


if __name__ == "__main__":
    sys.exit(main())
