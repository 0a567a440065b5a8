"""Trainings for tests that are evaluated by a benchmark while they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.nemo_engines.forge import Forge, Training, spec_of

SCORE = "eval_sums"
PROMPTS = ["What is 1 + 1?", "Say something."]


def benchmark(folder: Path, rows: int = 5) -> Path:
    """A benchmark as a job's first step leaves it: a digit is right, which even this model finds now and
    then."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "benchmark": {
            "name": "sums",
            "prompt": {"user": "{question} Answer with the number only."},
            "verifier": {"type": "match", "mode": "regex", "pattern": "([a-z0-9])", "which": "first"},
            "graded_ends": ["max_output_tokens"],
        },
        "responses_create_params": {"max_output_tokens": 6, "temperature": 0},
    }
    (folder / "benchmark.json").write_text(json.dumps(config))
    lines = [
        {"question": f"What is {number} + {number}?", "expected_answer": ["s", "e", "t", "1", "2"]}
        for number in range(rows)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def evaluated_spec(method: str, finetuning: str, folder: Path, **changes: Any) -> dict[str, Any]:
    """A spec of 6 steps that is evaluated every second one."""
    plan = {
        "every": 2,
        "name": "sums",
        "metric": SCORE,
        "folder": str(benchmark(folder / "benchmark")),
        "prompts": PROMPTS,
        "batch_size": 2,
        "max_new_tokens": 4,
        **changes.pop("evaluation", {}),
    }
    spec = spec_of(method, finetuning, folder, evaluation=plan, **changes)
    spec["schedule"] = {**spec["schedule"], "max_steps": 6}
    return spec


def results(training: Training) -> dict[int, dict[str, Any]]:
    """What each evaluation came to, by step."""
    found = (training.trainer_path / "evaluations").glob("*/result.json")
    read = [json.loads(path.read_text()) for path in found]
    return {one["step"]: one for one in sorted(read, key=lambda one: int(one["step"]))}


def started(forge: Forge, folder: Path, spec: dict[str, Any]) -> Training:
    """One that was left alone."""
    training = Training(forge, folder, dict(spec))
    assert training.start() == 0, training.log
    return training
