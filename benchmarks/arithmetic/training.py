"""Sums to learn from, as conversations; none of them is asked by the benchmark.

python benchmarks/arithmetic/training.py train.jsonl --without benchmarks/arithmetic/data/FILE.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

PROMPT = "{question} Answer with the number only."
"""As in config.yaml."""


def main() -> None:
    """Write the rows; the same ones for the same arguments."""
    parser = argparse.ArgumentParser(description="Write sums to learn from, one JSON object a line.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--without", type=Path, required=True, help="the questions of the benchmark")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--digits", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with options.without.open(encoding="utf-8") as stream:
        asked = {json.loads(line)["question"] for line in stream}
    rows = list(islice(sums(asked, options.digits, options.seed), options.rows))
    options.output.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sys.stderr.write(f"{len(rows)} sums to learn from, none of the {len(asked)} that are asked\n")


def sums(asked: set[str], digits: int, seed: int) -> Iterator[dict[str, object]]:
    """All sums of numbers with so many digits in random order, without those that are asked."""
    numbers = range(0 if digits == 1 else 10 ** (digits - 1), 10**digits)
    pairs = list(product(numbers, numbers))
    random.Random(seed).shuffle(pairs)
    for left, right in pairs:
        question = f"What is {left} + {right}?"
        if question not in asked:
            yield {
                "prompt": [{"role": "user", "content": PROMPT.format(question=question)}],
                "completion": [{"role": "assistant", "content": str(left + right)}],
            }


if __name__ == "__main__":
    main()
