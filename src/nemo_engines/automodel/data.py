"""Rows that are no conversations, for the recipe: a text to learn, or a completion of a prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nemo_automodel.components.datasets.llm.formatting_utils import format_prompt_completion

Tokens = dict[str, Any]


def pairs(file: str, seq_length: int, tokenizer: Any) -> list[Tokens]:
    """Token rows of a JSON Lines file; of a prompt nothing is learned, and the end of every row is."""
    lines = Path(file).read_text(encoding="utf-8").split("\n")
    return [_tokens(json.loads(line), seq_length, tokenizer) for line in lines if line]


def _tokens(row: dict[str, str], seq_length: int, tokenizer: Any) -> Tokens:
    end = tokenizer.eos_token or ""
    found: Tokens = format_prompt_completion(
        tokenizer,
        row.get("prompt", ""),
        row.get("completion", row.get("text", "")) + end,
        tokenizer.eos_token_id,
        tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
        seq_length=seq_length,
        truncation=True,
        answer_only_loss_mask="prompt" in row,
    )
    return found
