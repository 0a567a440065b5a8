"""``python -m nemo_engines.export.unpack FILE.gguf FOLDER``: the model in a file as a folder to train on.

The weights become plain 32-bit numbers: what was quantized stays as coarse as it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_engines.errors import BadSpecError, EngineUnavailableError, TrainerError


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
        raise BadSpecError(f"{file} does not exist, or is no file")
    if folder.exists():
        raise BadSpecError(f"{folder} is there already: give another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        _unpack(file, partial)
        partial.rename(folder)
    except ImportError as error:
        raise EngineUnavailableError(f"{error}: use the environment of `nemo engines install trl`") from error
    except (ValueError, OSError) as error:
        raise BadSpecError(f"{file} cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack(file: Path, folder: Path) -> None:
    import gguf  # noqa: F401, PLC0415 - transformers reads such files with it
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer, utils  # noqa: PLC0415

    utils.logging.disable_progress_bar()
    packed = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    del packed.config.quantization_config
    # The library refuses to save a model that it has read of such a file: a plain one takes over its weights.
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(packed.config, dtype=torch.float32)
    plain.load_state_dict(packed.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = packed.generation_config
    plain.save_pretrained(folder)
    words = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    _cut_digits(words, file)
    words.save_pretrained(folder)


def _cut_digits(tokenizer: Any, file: Path) -> None:
    """Some tokenizers cut numbers into digits; the file says so by a name that the library passes over."""
    from gguf import GGUFReader  # noqa: PLC0415
    from tokenizers import pre_tokenizers  # noqa: PLC0415

    field = GGUFReader(file).get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )


if __name__ == "__main__":
    sys.exit(main())
