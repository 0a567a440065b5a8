"""``python -m nemo_engines.export.gguf FOLDER OUT.gguf``: a trained model as one file for llama.cpp.

Runs in an engine's interpreter that has the package ``gguf``. An adapter is merged into its base model first.
What would be read as something else than it is (another architecture, another way of stretching positions,
another tokenizer) is refused: such a file loads, and answers nonsense.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_engines.errors import BadSpecError, EngineUnavailableError, TrainerError
from nemo_engines.export.formats import ARCHITECTURES, BLOCK, TYPES
from nemo_engines.export.tokens import Vocabulary, vocabulary


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file; the exit codes are those of trainings."""
    parser = argparse.ArgumentParser(
        prog="nemo_engines.export.gguf", description="Write a model as one file for llama.cpp's server."
    )
    parser.add_argument("model", type=Path, help="folder of a model, or of an adapter")
    parser.add_argument("output", type=Path, help="the .gguf file; replaced when it is whole")
    parser.add_argument("--base", type=Path, help="an adapter's base model, in place of the one it names")
    parser.add_argument(
        "--check", action="store_true", help="write nothing: try what can be tried without the weights"
    )
    parser.add_argument("--type", choices=TYPES, default="f16", help="numbers of the matrices (default f16)")
    options = parser.parse_args(argv)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    try:
        if options.check:
            rehearse(options.model, options.output, base=options.base)
        else:
            write(options.model, options.output, base=options.base, kind=options.type)
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def write(model: Path, output: Path, *, base: Path | None = None, kind: str = "f16") -> None:
    """Write the model in a folder to a file, by way of a file beside it; `TrainerError` says why not.

    What needs no weights is tried before they are loaded.
    """
    plain = rehearse(model, output, base=base)
    import gguf  # noqa: PLC0415 - only an engine's environment has it
    from transformers import AutoTokenizer  # noqa: PLC0415

    try:
        words = AutoTokenizer.from_pretrained(model)
        loaded = _load(model, plain)
    except (OSError, ValueError) as error:
        raise BadSpecError(f"the model {model} cannot be loaded: {error}") from error
    partial = _partial(output)
    try:
        writer = gguf.GGUFWriter(partial, loaded.config.model_type)
        _write_settings(writer, gguf, loaded.config, output.stem, kind)
        _write_words(writer, vocabulary(words, loaded.config.vocab_size))
        _write_tensors(writer, gguf, loaded, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def rehearse(model: Path, output: Path, *, base: Path | None = None) -> Path:
    """Try what `write` does beside the weights, as before a training whose model is to be written.

    Gives the folder with all weights. `TrainerError` says what would keep the file from being written: the
    libraries, the architecture, the tokenizer or the place of the file.
    """
    if not any((model / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise BadSpecError(
            f"{model} is not a folder of a model: it has no config.json or adapter_config.json"
        )
    plain = _base(model, base)
    _check_place(output)
    try:
        import gguf  # noqa: F401, PLC0415
        from transformers import AutoConfig, AutoTokenizer  # noqa: PLC0415
    except ImportError as error:
        raise EngineUnavailableError(f"{error}: use the environment of `nemo engines install trl`") from error
    try:
        config = AutoConfig.from_pretrained(plain)
        check(config)
        vocabulary(AutoTokenizer.from_pretrained(model), config.vocab_size)
    except (OSError, ValueError) as error:
        raise BadSpecError(f"the model {model} cannot be loaded: {error}") from error
    return plain


def _check_place(output: Path) -> None:
    if output.is_dir():
        raise BadSpecError(f"{output} is a folder: name the file to write, as in {output / 'model.gguf'}")
    partial = _partial(output)
    try:
        partial.touch(exist_ok=False)
        partial.unlink()
    except OSError as error:
        raise BadSpecError(f"{output} cannot be written: {error.strerror}") from error


def _partial(output: Path) -> Path:
    return output.with_name(f".{output.name}.{os.getpid()}")


def _base(folder: Path, base: Path | None) -> Path:
    """The folder with all weights: the model's own, or that of the model that an adapter belongs to."""
    described = folder / "adapter_config.json"
    if not described.is_file():
        return folder
    try:
        found = base or Path(json.loads(described.read_bytes())["base_model_name_or_path"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadSpecError(f"{described} does not name a base model: give --base") from error
    if not found.is_dir():
        raise BadSpecError(f"the base model {found} of the adapter {folder} is not a folder: give --base")
    return found


def _load(folder: Path, plain: Path) -> Any:
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, utils  # noqa: PLC0415

    utils.logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32)
    if folder == plain:
        return model
    from peft import PeftModel  # noqa: PLC0415

    return PeftModel.from_pretrained(model, folder).merge_and_unload()


def check(config: Any) -> None:
    """Refuse a model that llama.cpp would compute in another way than transformers does."""
    if config.model_type not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise BadSpecError(f"models of type '{config.model_type}' cannot be written; known are {known}")
    rope = config.rope_parameters
    if rope.get("rope_type", "default") != "default":
        raise BadSpecError(f"positions stretched as '{rope['rope_type']}' cannot be written")
    if config.hidden_act != "silu":
        raise BadSpecError(f"the activation '{config.hidden_act}' cannot be written")
    if getattr(config, "use_sliding_window", False):
        raise BadSpecError("a sliding window of attention cannot be written")


def _write_settings(writer: Any, gguf: Any, config: Any, name: str, kind: str) -> None:
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType[_FILE_TYPES[kind]])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


_FILE_TYPES = {kind: f"{'ALL' if kind == 'f32' else 'MOSTLY'}_{kind.upper()}" for kind in TYPES}
_FINER = ("token_embd.weight", "output.weight")
"""Tensors that decide the next token; of types below eight bits they get eight."""


def _write_words(writer: Any, words: Vocabulary) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(words.cut)
    writer.add_token_list(words.tokens)
    writer.add_token_types(words.kinds)
    writer.add_token_merges(words.merges)
    for name, number in words.specials.items():
        getattr(writer, f"add_{name}_token_id")(number)
    writer.add_add_bos_token(words.adds_bos)
    writer.add_add_space_prefix(False)
    if words.template is not None:
        writer.add_chat_template(words.template)


def _write_tensors(writer: Any, gguf: Any, model: Any, kind: str) -> None:
    architecture = gguf.MODEL_ARCH[model.config.model_type.upper()]
    names = gguf.get_tensor_name_map(architecture, model.config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if target is None:
            raise BadSpecError(f"the tensor {name} has no place in a file of type {model.config.model_type}")
        values = tensor.detach().float().numpy()
        heads = _rotated_heads(name, model.config)
        if heads is not None:
            values = interleaved(values, heads)
        chosen = gguf.GGMLQuantizationType[number_type(kind, target, values.shape).upper()]
        writer.add_tensor(target, gguf.quants.quantize(values, chosen), raw_dtype=chosen)


def number_type(kind: str, target: str, shape: Sequence[int]) -> str:
    """The type of a tensor's numbers in a file of some type."""
    if len(shape) < 2:
        return "f32"
    if kind.startswith("q") and shape[-1] % BLOCK:
        return "f16"
    return "q8_0" if kind.startswith(("q4", "q5")) and target in _FINER else kind


def _rotated_heads(name: str, config: Any) -> int | None:
    """Heads of a projection that llama.cpp rotates in another order of dimensions; none for other models."""
    if config.model_type != "llama":
        return None
    if ".q_proj." in name:
        return int(config.num_attention_heads)
    return int(config.num_key_value_heads) if ".k_proj." in name else None


def interleaved(values: Any, heads: int) -> Any:
    """Rows of each head from "first halves, then second halves" to pairs: what rotates together, together."""
    rows = values.shape[0]
    halves = values.reshape(heads, 2, rows // heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


if __name__ == "__main__":
    sys.exit(main())
