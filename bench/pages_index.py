"""The pages of an evaluation beside its results: opening them against reading the results once.

Rollouts with answers of a stated size are written, and read into a table once, as is done behind the pages.
Then the table is opened again, as after a start, and asked for what the list, a filter and the reader
show. Limits: a page in 200 ms and in 2 % of the time of one plain reading of the results (`locate`, which is
what a page without a table would do). Ends with 1 when one is passed.

    python bench/pages_index.py [--rollouts 100000] [--bytes 50000] [--folder /tmp/…]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.output_index import OutputIndex
from nemo_gym.pages.index.rollout_query import RolloutQuery
from nemo_gym.rollouts.output.rows import encode_row
from nemo_gym.rollouts.reading.located import locate

SECONDS = 0.2
SHARE = 0.02


def write_rollouts(paths: RolloutPaths, rollouts: int, size: int) -> None:
    """Results of four repeats a task, one in three wrong."""
    text = "all work and no play " * (size // 21)
    output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    with paths.output.open("wb") as file:
        for number in range(rollouts):
            perf = {"completion_tokens": size // 4, "total_latency_ms": number % 977 + 0.5, "ended_at": 1.8e9}
            fields = {
                "_ng_agent_fields": [],
                "response": {"status": "completed", "output": output},
                "reward": float(number % 3 > 0),
                "extracted_answer": str(number),
                "ng_perf": perf,
            }
            file.write(encode_row(number // 4, number % 4, fields) + b"\n")


def pages(paths: RolloutPaths, tables: Path) -> dict[str, float]:
    """Seconds that each page took, from opening the table on."""
    asked = {
        "list": lambda index: index.ask(queries.page_of, RolloutQuery()),
        "wrong ones, last page": lambda index: index.ask(
            queries.page_of, RolloutQuery(kinds=frozenset({"wrong"}), page=10**6)
        ),
        "slowest": lambda index: index.ask(queries.page_of, RolloutQuery(order="slow")),
        "grid and counts": lambda index: (index.ask(queries.counts), index.ask(queries.task_scores)),
        "one rollout": lambda index: index.rollout(index.ask(queries.entry_at, (1, 1))),
    }
    found = {}
    for name, ask in asked.items():
        begun = time.perf_counter()
        index = OutputIndex(paths, tables)
        ask(index)
        index.state()
        found[name] = time.perf_counter() - begun
        index.close()
    return found


def main() -> int:
    """Measure and say it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=50_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        paths = RolloutPaths(folder / "rollouts.jsonl")
        write_rollouts(paths, options.rollouts, options.bytes)
        size = paths.output.stat().st_size
        begun = time.perf_counter()
        located = locate(paths)
        plain = time.perf_counter() - begun
        assert len(located.results) == options.rollouts
        index, steps = OutputIndex(paths, folder / "tables"), 1
        begun = time.perf_counter()
        while not index.read_on(time.time()):
            steps += 1
        first = time.perf_counter() - begun
        begun = time.perf_counter()
        index.read_on(time.time())
        again = time.perf_counter() - begun
        index.close()
        found = pages(paths, folder / "tables")
        table = sum(path.stat().st_size for path in (folder / "tables").iterdir())
    print(f"{options.rollouts:,} rollouts, {size / 1e9:.2f} GB; table {table / 1e6:.1f} MB")
    print(
        f"plain reading {plain:.1f} s; read into the table once in {steps} slices {first:.1f} s "
        f"({first / plain:.2f} times); looked at again without changes {1000 * again:.1f} ms"
    )
    for name, seconds in found.items():
        print(f"{name}: {1000 * seconds:.1f} ms ({seconds / plain:.5f} of a plain reading)")
    worst = max(found.values())
    return int(worst > SECONDS or worst > SHARE * plain)


if __name__ == "__main__":
    sys.exit(main())
