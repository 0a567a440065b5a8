"""What an evaluation asks: the rows of a benchmark, and fixed prompts; and the files that it leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nemo_engines.errors import BadSpecError
from nemo_engines.rewards import ROW, Rewards
from nemo_engines.sections import EvaluationPlan

RESULT: Final = "result.json"
_BENCHMARK, _ROWS = "benchmark.json", "rows.jsonl"
_OF_NO_EFFECT = frozenset({"extra_body", "seed", "reasoning"})
_TAKEN = frozenset({"temperature", "top_p", "max_output_tokens", "stop"})


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are drawn; without a temperature the likeliest token is taken at each place."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Questions:
    """The benchmark of an evaluation, checked."""

    rewards: Rewards
    prompts: tuple[list[dict[str, Any]], ...]
    """Messages, one list of them for each row."""
    rows: tuple[str, ...]
    """The rows as the verifier gets them, as JSON."""
    sampling: Sampling


def questions(wanted: EvaluationPlan) -> Questions | None:
    """What is asked of a checkpoint; `None` without a benchmark. `BadSpecError` for one that cannot be."""
    if wanted.folder is None:
        return None
    folder = Path(wanted.folder)
    try:
        config = json.loads((folder / _BENCHMARK).read_text(encoding="utf-8"))
        lines = (folder / _ROWS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise BadSpecError(f"evaluation.folder {folder} holds no benchmark: {error}") from error
    rewards = Rewards(config)
    prompts, rows = [], []
    for number, line in enumerate(lines, start=1):
        try:
            made = rewards.shape(json.loads(line))
        except ValueError as error:
            raise BadSpecError(f"{folder / _ROWS}, line {number}: {error}") from error
        prompts.append(made["prompt"])
        rows.append(made[ROW])
    if not rows:
        raise BadSpecError(f"{folder / _ROWS} has no rows")
    sampling = _sampling(config.get("responses_create_params") or {}, wanted.max_new_tokens)
    return Questions(rewards, tuple(prompts), tuple(rows), sampling)


def _sampling(given: Mapping[str, Any], limit: int) -> Sampling:
    for name, value in given.items():
        if name not in _TAKEN | _OF_NO_EFFECT and value is not None:
            raise BadSpecError(f"the benchmark's responses_create_params.{name} is not supported in training")
    stop = given.get("stop") or ()
    return Sampling(
        max_new_tokens=int(given.get("max_output_tokens") or limit),
        temperature=float(given.get("temperature") or 0.0),
        top_p=float(given.get("top_p") or 1.0),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )


def read_result(folder: Path) -> dict[str, Any] | None:
    """What an evaluation came to, with ``error`` where it failed; `None`: it has not ended."""
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
