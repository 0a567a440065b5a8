"""Tokenizers as llama.cpp knows them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_engines.errors import BadSpecError
from nemo_engines.export import tokens

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}
QWEN = {
    "type": "Split",
    "pattern": {
        "Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    },
}


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


@pytest.mark.parametrize(
    ("pre_tokenizer", "name"),
    [
        (BYTES, "gpt-2"),
        (sequence(BYTES), "gpt-2"),
        (sequence(DIGITS, BYTES), "smollm"),
        (sequence(QWEN, {**BYTES, "use_regex": False}), "qwen2"),
    ],
)
def test_known_ways_of_cutting_have_names(pre_tokenizer: dict[str, Any], name: str) -> None:
    assert tokens.cut_name(pre_tokenizer) == name


@pytest.mark.parametrize(
    "pre_tokenizer",
    [
        None,
        {"type": "Whitespace"},
        {**BYTES, "add_prefix_space": True},
        {**BYTES, "use_regex": False},
        sequence({**DIGITS, "individual_digits": False}, BYTES),
        sequence({"type": "Split", "pattern": {"String": " "}}, BYTES),
    ],
)
def test_other_ways_of_cutting_are_refused(pre_tokenizer: dict[str, Any] | None) -> None:
    with pytest.raises(BadSpecError, match="cuts text in a way that is not known here"):
        tokens.cut_name(pre_tokenizer)


def test_marks_for_training_become_true_conditions() -> None:
    template = "{%- if a %}{% generation %}x{%- endgeneration -%}{% endif %} generation"
    plain = "{%- if a %}{% if true %}x{%- endif -%}{% endif %} generation"
    assert tokens.plain_template(template) == plain
    assert tokens.plain_template(None) is None


class Tokenizer:
    """As much of a tokenizer as is looked at."""

    chat_template = None
    bos_token_id, eos_token_id, unk_token_id, pad_token_id = None, 1, None, 0

    def __init__(self, **changes: Any) -> None:
        described = {
            "pre_tokenizer": BYTES,
            "added_tokens": [{"id": 0, "special": True}, {"id": 3, "special": False}],
            "model": {"type": "BPE", "merges": [["a", "b"], "ab c"]},
            **changes,
        }
        self.backend_tokenizer = SimpleNamespace(to_str=lambda: json.dumps(described))

    def get_vocab(self) -> dict[str, int]:
        return {"<pad>": 0, "a": 1, "b": 2, "tool": 3}


def test_a_vocabulary_has_a_kind_for_each_token_and_fills_up_to_the_models_rows() -> None:
    made = tokens.vocabulary(Tokenizer(), 6)
    assert made.tokens == ("<pad>", "a", "b", "tool", "[PAD4]", "[PAD5]")
    assert made.kinds == (3, 1, 1, 4, 5, 5)
    assert made.merges == ("a b", "ab c")
    assert made.specials == {"eos": 1, "pad": 0}
    assert not made.adds_bos


@pytest.mark.parametrize(
    ("changes", "size", "said"),
    [
        ({"model": {"type": "Unigram"}}, 6, "only byte-level BPE"),
        ({"model": {"type": "BPE", "byte_fallback": True}}, 6, "only byte-level BPE"),
        ({"normalizer": {"type": "Lowercase"}}, 6, "changes text before cutting it"),
        ({}, 3, "has 4 tokens, the model only 3"),
    ],
)
def test_other_tokenizers_are_refused(changes: dict[str, Any], size: int, said: str) -> None:
    with pytest.raises(BadSpecError, match=said):
        tokens.vocabulary(Tokenizer(**changes), size)
