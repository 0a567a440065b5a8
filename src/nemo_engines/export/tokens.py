"""A tokenizer as llama.cpp stores it: the vocabulary with its merges, and by name how text is cut before."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from nemo_engines.errors import BadSpecError

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
"""Kinds of tokens, with llama.cpp's numbers."""

_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {"qwen2": _QWEN2, "llama-bpe": _LLAMA3}
"""Ways of cutting text that are one regular expression, by llama.cpp's names."""
_BY_PATTERN = {pattern: name for name, pattern in PATTERNS.items()}
_GENERATION = re.compile(r"(\{%[-+]?\s*)(end)?generation(\s*[-+]?%\})")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a GGUF file says of a tokenizer."""

    cut: str
    """llama.cpp's name for how text is cut into pieces before merging."""
    tokens: tuple[str, ...]
    kinds: tuple[int, ...]
    merges: tuple[str, ...]
    specials: dict[str, int]
    """``bos``, ``eos``, ``unk`` and ``pad``, as far as there are such."""
    adds_bos: bool
    template: str | None


def vocabulary(tokenizer: Any, size: int) -> Vocabulary:
    """What to write of a fast tokenizer, for a model with ``size`` rows of embeddings.

    `BadSpecError` when it is of a kind that llama.cpp would read as another one.
    """
    described = json.loads(tokenizer.backend_tokenizer.to_str())
    model = described["model"]
    if model["type"] != "BPE" or model.get("byte_fallback"):
        raise BadSpecError(f"only byte-level BPE tokenizers can be written, not {model['type']}")
    if described.get("normalizer") not in (None, {"type": "NFC"}):
        raise BadSpecError("the tokenizer changes text before cutting it, which cannot be written")
    names = {number: token for token, number in tokenizer.get_vocab().items()}
    if max(names) >= size:
        raise BadSpecError(f"the tokenizer has {max(names) + 1} tokens, the model only {size}")
    added = {item["id"]: bool(item["special"]) for item in described["added_tokens"]}
    numbers = range(size)
    return Vocabulary(
        cut=cut_name(described["pre_tokenizer"]),
        tokens=tuple(names.get(number, f"[PAD{number}]") for number in numbers),
        kinds=tuple(_kind(number, names, added) for number in numbers),
        merges=tuple(pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]),
        specials=_specials(tokenizer),
        adds_bos=_adds_bos(tokenizer),
        template=plain_template(tokenizer.chat_template),
    )


def cut_name(pre_tokenizer: dict[str, Any] | None) -> str:
    """llama.cpp's name for a pre-tokenizer; `BadSpecError` for one that is not known here."""
    whole = pre_tokenizer or {"type": None}
    parts: list[dict[str, Any]] = whole["pretokenizers"] if whole["type"] == "Sequence" else [whole]
    kinds, first, last = [part["type"] for part in parts], parts[0], parts[-1]
    if kinds[-1] == "ByteLevel" and not last.get("add_prefix_space"):
        by_words = last.get("use_regex", True)
        if kinds == ["ByteLevel"] and by_words:
            return "gpt-2"
        if kinds == ["Digits", "ByteLevel"] and first["individual_digits"] and by_words:
            return "smollm"
        if kinds == ["Split", "ByteLevel"] and first["pattern"].get("Regex") in _BY_PATTERN:
            return _BY_PATTERN[first["pattern"]["Regex"]]
    raise BadSpecError(
        f"the tokenizer cuts text in a way that is not known here: {json.dumps(pre_tokenizer)}"
    )


def plain_template(template: object) -> str | None:
    """A chat template whose marks for training, which llama.cpp does not know, are true conditions."""
    if not isinstance(template, str):
        return None
    return _GENERATION.sub(
        lambda found: f"{found[1]}{'endif' if found[2] else 'if true'}{found[3]}", template
    )


def _kind(number: int, names: dict[int, str], added: dict[int, bool]) -> int:
    if number not in names:
        return UNUSED
    if number not in added:
        return NORMAL
    return CONTROL if added[number] else USER_DEFINED


def _specials(tokenizer: Any) -> dict[str, int]:
    found = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "unk", "pad")}
    return {name: number for name, number in found.items() if number is not None}


def _adds_bos(tokenizer: Any) -> bool:
    begin = tokenizer.bos_token_id
    return begin is not None and tokenizer("a")["input_ids"][:1] == [begin]
