"""Rows for the recipe: written as tokens before it is set up, and read by it from a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_automodel._transformers.auto_tokenizer import NeMoAutoTokenizer
from nemo_automodel.components.datasets.llm.formatting_utils import _package_tokenized_example

from nemo_engines.data import learned
from nemo_engines.data.chat_templates import TemplateWriter, with_template
from nemo_engines.data.learned import Tokens
from nemo_engines.data.rows import Row
from nemo_engines.data.template_date import fix_day
from nemo_engines.errors import BadSpecError
from nemo_engines.spec import EngineSpec, answers_only


def tokenizer_of(spec: EngineSpec) -> Any:
    """The tokenizer as the recipe loads it."""
    found = NeMoAutoTokenizer.from_pretrained(spec.model, trust_remote_code=spec.trust_remote_code)
    if len(found) <= len(found.all_special_tokens):
        # the library makes an empty one where the files are missing
        raise BadSpecError(f"the model {spec.model} has no files of a tokenizer")
    return with_template(spec, found)


def writer(spec: EngineSpec, tokenizer: Any) -> TemplateWriter:
    """What writes the rows of a run."""
    fix_day()
    return TemplateWriter(tokenizer, assistant_only=answers_only(spec))


def write(file: Path, found: Sequence[Tokens], longest: int) -> None:
    """Write rows, cut to the longest length."""
    with file.open("w", encoding="utf-8") as stream:
        for row in found:
            marks = [int(mark) for mark in row.learned[:longest]]
            stream.write(json.dumps({"ids": row.ids[:longest], "learned": marks}) + "\n")


def token_rows(file: str, seq_length: int, tokenizer: Any) -> list[dict[str, Any]]:
    """The rows of a file that `write` made, as the recipe's collator takes them."""
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    with Path(file).open(encoding="utf-8") as stream:
        return [_packaged(json.loads(line), seq_length, tokenizer, pad) for line in stream]


def _packaged(row: dict[str, list[int]], longest: int, tokenizer: Any, pad: int) -> dict[str, Any]:
    made: dict[str, Any] = _package_tokenized_example(
        tokenizer=tokenizer,
        input_ids=row["ids"],
        assistant_masks=row["learned"],
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=pad,
        seq_length=longest,
        truncation=True,
    )
    return made


def tokens_of(write_with: TemplateWriter, rows: Sequence[Row]) -> list[Tokens]:
    """Rows as tokens; `DataError` names file and line of one that cannot be written."""
    return learned.made_of(rows, lambda row: learned.tokens(write_with, row))
