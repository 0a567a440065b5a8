"""A benchmark for a file of rows, written as a configuration: guessed, commented, and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.data.dataset import check_rows
from nemo_gym.rollouts.data.guess import Guess, guess_benchmark
from nemo_gym.rollouts.judges.configured import UnnamedJudges
from nemo_gym.rollouts.run_config.schema import load_run_config
from nemo_gym.rollouts.scores.whole_answers import load_grader

_END = """\

# Sampling is the server's own unless it is said here.
# responses_create_params:
#   temperature: 0
#   max_output_tokens: 512
"""


def write_benchmark(
    name: str, rows: Path, folder: Path, *, verifier: Mapping[str, Any] | None = None
) -> tuple[Path, Guess]:
    """Write ``folder/NAME/config.yaml`` for a file of rows, and return it with what was guessed.

    Nothing is left behind where a row could not be asked or graded as guessed: `ConfigError` and
    `nemo_gym.errors.DataError` say what is wrong. A configuration that is there is never replaced.
    """
    target = folder / name / "config.yaml"
    if target.exists():
        raise ConfigError(f"{target}: there is such a file already; choose another name, or change that one.")
    guess = guess_benchmark(rows, name=name, verifier=verifier)
    text = _text(guess, rows, target.parent)
    made = not target.parent.exists()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written: {error.strerror}.") from error
    try:
        config = load_run_config(
            [str(target)], None, [], search_dirs=[], cwd=target.parent, user_env=False
        ).config
        check_rows(
            config, rows, load_grader(config.benchmark, repeats=config.repeats, judges=UnnamedJudges())
        )
    except Exception:
        target.unlink()
        if made:
            target.parent.rmdir()
        raise
    return target, guess


def _text(guess: Guess, rows: Path, folder: Path) -> str:
    """The configuration as a person would write it, with a comment at whatever was guessed."""
    benchmark = {**guess.benchmark}
    benchmark["datasets"] = {"benchmark": {"jsonl_fpath": os.path.relpath(rows, folder.absolute())}}
    order = (
        "name",
        "description",
        "datasets",
        "parse",
        "fields",
        "choices",
        "prompt",
        "verifier",
        "group_by",
    )
    lines = [
        f"# Written by `gym eval init` from {rows.name}. What was guessed says so: check it.",
        "benchmark:",
    ]
    for key in order:
        if key not in benchmark:
            continue
        if key in guess.said:
            lines.append(f"  # guessed: {guess.said[key]}")
        dumped = yaml.safe_dump({key: benchmark[key]}, sort_keys=False, allow_unicode=True, width=100)
        lines += [f"  {line}" if line else "" for line in dumped.rstrip().splitlines()]
    return "\n".join(lines) + "\n" + _END
