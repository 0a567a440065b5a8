"""Trainings for tests that are evaluated by a benchmark while they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.nemo_engines.forge import Forge, Training, spec_of

from nemo_trainer.contract import list_checkpoints

SCORE = "eval_sums"
STOPPING = {"metric": SCORE, "best_is": "highest", "patience": 2, "min_change": 1.0}
SAVE = {"best_metric": SCORE, "best_is": "highest", "output": "best"}
PROMPTS = ["What is 1 + 1?", "Say something."]


def benchmark(folder: Path, rows: int = 3) -> Path:
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
        "batch_size": 1,
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


def answered(training: Training) -> dict[int, list[int]]:
    """The rows that were answered for each step, in the order of their files."""
    found: dict[int, list[int]] = {}
    for path in sorted((training.trainer_path / "evaluations").glob("*/answers*.jsonl")):
        rows = [json.loads(line)["task_index"] for line in path.read_text().splitlines()]
        found.setdefault(int(path.parent.name), []).extend(rows)
    return found


def scores(training: Training) -> dict[int, float]:
    """Each score, by step."""
    return {step: values[SCORE] for step, values in training.history.items() if SCORE in values}


def early(folder: Path, **changes: Any) -> dict[str, Any]:
    """A spec that its scores end at step 6: none after the first one is good enough."""
    spec = evaluated_spec("sft", "lora", folder, early_stopping=STOPPING, save=SAVE, **changes)
    spec["schedule"]["max_steps"] = 12
    return spec


def assert_ended_alike(broken: Training, alone: Training, last: int) -> None:
    """Both ended at a step, decided by the same scores, and asked each row once."""
    for training in (alone, broken):
        assert list(training.history) == list(range(1, last + 1)), training.log
        assert training.progress["early_stopping"]["stopped_at"] == 6
        assert training.progress["best_checkpoint"]["step"] == 2
        assert {step: sorted(rows) for step, rows in answered(training).items()} == {
            step: [0, 1, 2] for step in scores(training)
        }
    assert broken.history == alone.history
    assert broken.weights
    assert broken.weights == alone.weights
    assert 2 in {item.step for item in list_checkpoints(broken.trainer_path)}
