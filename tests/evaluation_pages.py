"""Evaluations for tests of their pages: made of the files that runs leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp
from tests.result_rows import benchmark_config, message, result, run_config, write_manifest, write_output

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.pages.viewing import view_application
from nemo_gym.rollouts.scores.aggregate import aggregate
from nemo_pages.runs.table import RunTable
from nemo_runs.clock import MovableClock

HOSTILE = '<script>alert("x")</script>\u202ecod\u202c\x1b[31m\x00<img src=x onerror=alert(1)>'
"""What a model may write to harm who reads it."""


def hostile_result() -> dict[str, Any]:
    """A wrong answer with thoughts, every part of it hostile."""
    found = result(HOSTILE, reward=0.0, answer=HOSTILE)
    thoughts = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": f"thinking {HOSTILE}"}]}
    found["response"]["output"] = [thoughts, message(f"answer {HOSTILE}")]
    return found


def write_evaluation(
    folder: Path, rewards: list[float | None], *, repeats: int = 1, **more: Any
) -> RolloutPaths:
    """A finished output with one reward a task; its second task has a hostile answer where it is wrong."""
    results = {}
    for task, reward in enumerate(rewards):
        for repeat in range(repeats):
            results[task, repeat] = hostile_result() if (task, reward) == (1, 0.0) else result(reward=reward)
    expected = len(rewards) + bool(more.get("failures"))
    paths = write_output(folder, results, tasks=expected, repeats=repeats, **more)
    config = run_config(
        benchmark_config(folder.parent / "config"), "policy_model_name=m", "policy_base_url=http://x/v1"
    )
    write_manifest(paths, config, tasks=expected, repeats=repeats)
    aggregate(paths, num_tasks=expected, num_repeats=repeats, run={"benchmark": "sums", "model": "m"})
    return paths


def observed(*folders: Path, tables: Path, records: bool = False) -> EvaluationIndex:
    """An index that has looked at everything once."""
    index = EvaluationIndex(folders, records=records, tables=tables, clock=MovableClock())
    look_again(index)
    return index


def look_again(index: EvaluationIndex) -> None:
    """Look at runs, read rollouts, work out what was asked for."""
    index.observe()
    while not index.read_rollouts():
        pass
    while index.answers._one():
        pass


def application(index: EvaluationIndex, **more: Any) -> ASGIApp:
    """The pages of `gym view` for an index."""
    return view_application(RunTable(), index, **more)


def client(index: EvaluationIndex, **more: Any) -> TestClient:
    """A client of those pages."""
    return TestClient(application(index, **more))
