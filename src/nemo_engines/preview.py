"""``python -m nemo_engines.preview --spec FILE --rows N``: what a training would learn, without training.

The rows are written by the engine's own tokenizer and chat template, as its training writes them; no weights
are loaded. Standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nemo_engines import devices, spec
from nemo_engines.data import learned, mixing, rows
from nemo_engines.data.chat_templates import TemplateWriter
from nemo_engines.data.learned import Cut, Pair, Tokens
from nemo_engines.data.rows import Dataset
from nemo_engines.errors import TrainerError
from nemo_engines.registry import engine_for, load_driver
from nemo_engines.rewards import Rewards
from nemo_engines.run import DEFAULTS
from nemo_engines.spec import EngineSpec

Marked = list[tuple[int, str]]
"""Tokens of a row, each with its mark: read, learned, chosen, rejected or cut."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the preview; the exit code is that of the training that would fail."""
    parser = argparse.ArgumentParser(
        prog="nemo_engines.preview", description="Show what a spec's training learns."
    )
    parser.add_argument("--spec", type=Path, required=True, help="JSON file with the engine spec")
    parser.add_argument("--rows", type=int, default=3, help="how many rows to show")
    options = parser.parse_args(argv)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    written, sys.stdout = sys.stdout, sys.stderr  # libraries talk; the document stands alone
    try:
        found = preview(spec.read_spec(options.spec), options.rows)
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    written.write(json.dumps(found) + "\n")
    return 0


class _Seen(NamedTuple):
    """A training data set as the training sees it."""

    data: Dataset
    marked: list[Marked]
    left_out: set[int]
    """Indices of rows that are not trained on."""


def preview(wanted: EngineSpec, count: int) -> dict[str, Any]:
    """The first ``count`` rows of each data set as they are learned, and what is cut of all of them."""
    found, sets, tokenizer = _looked_at(wanted, None)
    shown = []
    for seen in sets:
        of = {"file": seen.data.file.name} if len(sets) > 1 else {}
        shown += [
            {**_shown(seen.data, index, seen.marked[index], tokenizer), **of}
            for index in range(min(count, len(seen.marked)))
        ]
    return {**found, "rows": shown}


def measured(wanted: EngineSpec, device: str | None) -> tuple[dict[str, Any], list[int], list[int]]:
    """What a preview says of all rows, and of each row that is learned its tokens, after it is cut.

    First of its longest sequence, then of all that it has: of a pair both answers, each with its prompt.
    ``device`` is what the training will run on; `None`: what this machine has.
    """
    found, sets, _ = _looked_at(wanted, device)
    weights = [wanted.data.weight, *(source.weight for source in wanted.data.beside or ())]
    picked = mixing.chosen([len(seen.marked) for seen in sets], weights, wanted.seed)
    kept = [sets[number].marked[row] for number, row in picked if row not in sets[number].left_out]
    counts = [Counter(mark for _, mark in row) for row in kept]
    if wanted.method != "dpo":
        lengths = [count.total() - count["cut"] for count in counts]
        return found, lengths, lengths
    longest = [count["read"] + max(count["chosen"], count["rejected"]) for count in counts]
    return found, longest, [2 * count["read"] + count["chosen"] + count["rejected"] for count in counts]


def _looked_at(wanted: EngineSpec, device: str | None) -> tuple[dict[str, Any], list[_Seen], Any]:
    engine = engine_for(wanted)
    devices.check_device(wanted, device or devices.chosen_device(wanted))
    rewards = Rewards(wanted.rewards) if wanted.method == "grpo" and wanted.rewards is not None else None
    shape = rewards.shape if rewards else None
    sets = mixing.read_weighted(wanted, shape)
    validation = (
        rows.read_for(wanted, Path(wanted.validation), "validation", shape) if wanted.validation else None
    )
    writer, tokenizer = load_driver(engine).writer(wanted)
    seen, facts = [], []
    for one in sets:
        described, marked, left_out = _part(wanted, one.data, writer)
        facts.append({**described, "weight": one.weight})
        seen.append(_Seen(one.data, marked, set(left_out)))
    found = {
        "engine": engine.name,
        "method": wanted.method,
        "max_seq_length": wanted.max_seq_length,
        "overlong": wanted.data.overlong,
        "packing": wanted.batch.packing,
        "training": facts[0],
        "beside": facts[1:],
        "validation": _part(wanted, validation, writer)[0] if validation else None,
    }
    return found, seen, tokenizer


def _part(
    wanted: EngineSpec, data: Dataset, writer: TemplateWriter
) -> tuple[dict[str, Any], list[Marked], list[int]]:
    """What is said of a file, its rows with their marks, and the indices of those that are left out."""
    longest, drops = wanted.max_seq_length, wanted.data.overlong == "drop"
    marked: list[Marked]
    open_ended: list[int] = []
    if wanted.method == "grpo":
        prompts = learned.made_of(
            data.rows, lambda row: writer.conversation(row["prompt"], row, asks=True).ids
        )
        cut, marked = Cut([], [], 0), [[(token, "read") for token in prompt] for prompt in prompts]
    elif wanted.method == "dpo":
        pairs = learned.made_of(data.rows, lambda row: learned.pair(writer, row))
        cut, marked = (
            learned.cut_pairs(pairs, longest, drops=drops),
            [_of_pair(pair, longest) for pair in pairs],
        )
        open_ended = learned.without_end(writer, data.rows, pairs)
    else:
        found = learned.made_of(data.rows, lambda row: learned.tokens(writer, row))
        cut, marked = (
            learned.cut_tokens(found, longest, drops=drops),
            [_of_tokens(row, longest) for row in found],
        )
        open_ended = learned.without_end(writer, data.rows, found)
    facts = {
        "file": data.file.name,
        "rows": len(data.rows),
        "tokens": sum(map(len, marked)),
        "tokens_learned": sum(mark not in ("read", "cut") for row in marked for _, mark in row),
        "tokens_cut": cut.tokens,
        "shortened_lines": [data.rows.lines[index] for index in cut.shortened],
        "left_out_lines": [data.rows.lines[index] for index in cut.left_out],
        "unused_keys": dict(data.unused),
        "unwritten": [kind._asdict() for kind in learned.unwritten(writer, data.rows).kinds()],
        "without_end_lines": [data.rows.lines[index] for index in open_ended],
    }
    return facts, marked, cut.left_out


def _of_tokens(row: Tokens, longest: int) -> Marked:
    marks = ["learned" if wanted else "read" for wanted in row.learned]
    return [
        (token, mark if index < longest else "cut")
        for index, (token, mark) in enumerate(zip(row.ids, marks, strict=True))
    ]


def _of_pair(row: Pair, longest: int) -> Marked:
    left = max(0, longest - len(row.prompt))
    found = [(token, "read" if index < longest else "cut") for index, token in enumerate(row.prompt)]
    for mark, answer in (("chosen", row.chosen), ("rejected", row.rejected)):
        found += [(token, mark if index < left else "cut") for index, token in enumerate(answer)]
    return found


def _shown(data: Dataset, index: int, row: Marked, tokenizer: Any) -> dict[str, Any]:
    parts: list[tuple[str, list[int]]] = []
    for token, mark in row:
        if not parts or parts[-1][0] != mark:
            parts.append((mark, []))
        parts[-1][1].append(token)
    return {
        "line": data.rows.lines[index],
        "tokens": len(row),
        "parts": [{"mark": mark, "text": str(tokenizer.decode(ids))} for mark, ids in parts],
    }


if __name__ == "__main__":
    sys.exit(main())
