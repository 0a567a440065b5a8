"""``python -m nemo_gym.rollouts.data.for_training``: a benchmark as a training evaluates it, in a folder.

The rows of it are made or fetched as for `gym eval run`, and what the training needs of its configuration is
written beside them. A training asks and grades itself, so a benchmark of another kind is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym.errors import EXIT_USAGE, ConfigError, GymError

if TYPE_CHECKING:
    from nemo_gym.rollouts.run_config.schema import RunConfig

BENCHMARK, ROWS = "benchmark.json", "rows.jsonl"
_USED = ("name", "fields", "choices", "prompt", "verifier", "graded_ends", "grade_reasoning")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files; 2 with one sentence on standard error where the benchmark is none for a training."""
    parser = argparse.ArgumentParser(prog="nemo_gym.rollouts.data.for_training")
    parser.add_argument("--benchmark", help="its name")
    parser.add_argument("--config", help="or the file of its configuration")
    parser.add_argument("--limit", type=int, help="the first so many rows")
    parser.add_argument("--into", type=Path, required=True, help="the folder")
    given = parser.parse_args(argv)
    try:
        _write(given.benchmark, given.config, given.limit, given.into)
    except GymError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    return 0


def _write(benchmark: str | None, file: str | None, limit: int | None, folder: Path) -> None:
    from nemo_gym.rollouts.data.prepare import ensure_data
    from nemo_gym.rollouts.data.row_files import numbered_lines
    from nemo_gym.rollouts.run_config.schema import load_run_config

    folder.mkdir(parents=True, exist_ok=True)
    named = [file] if file else []
    config = load_run_config(named, benchmark, [], search_dirs=(), cwd=folder, user_env=False).config
    _check(config)
    path = ensure_data(_made_here(config, folder), report=lambda line: print(line, file=sys.stderr))
    lines = [line for _, line in islice(numbered_lines(path), limit)]
    if not lines:
        raise ConfigError(f"the benchmark {config.benchmark.name} has no rows.")
    (folder / ROWS).write_bytes(b"".join(line.strip() + b"\n" for line in lines))
    used = config.benchmark.model_dump(mode="json", exclude_none=True, include=set(_USED))
    document = {"benchmark": used, "responses_create_params": config.responses_create_params.given()}
    (folder / BENCHMARK).write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")


def _check(config: RunConfig) -> None:
    name, kind = config.benchmark.name, config.benchmark.agent["type"]
    if config.benchmark.command is not None or config.benchmark.lm_eval is not None:
        raise ConfigError(f"the benchmark {name} asks the model itself, which a training cannot let it do.")
    if kind != "single_turn":
        raise ConfigError(
            f"the agent {kind} of the benchmark {name} needs a server, and a training has none."
        )


def _made_here(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration with data that is made put into the folder: others may not be written to."""
    dataset = config.benchmark.datasets.get(config.split)
    if dataset is None or (dataset.huggingface is None and dataset.prepare_script is None):
        return config
    here = dataset.model_copy(update={"jsonl_fpath": folder / "made.jsonl"})
    datasets = {**config.benchmark.datasets, config.split: here}
    return config.model_copy(update={"benchmark": config.benchmark.model_copy(update={"datasets": datasets})})


if __name__ == "__main__":
    sys.exit(main())
