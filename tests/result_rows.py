"""Outputs as a collector leaves them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.composition import parse_overrides
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.manifest import OutputManifest
from nemo_gym.rollouts.output.rows import encode_row
from nemo_gym.rollouts.run_config.identity import identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config


def message(text: str) -> dict[str, Any]:
    """An output item of a Responses object."""
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def result(
    text: str = "4", *, reward: Any = 1.0, answer: str | None = "4", cut: bool = False, **more: Any
) -> dict[str, Any]:
    """The fields that a collector adds to a materialized row."""
    return {
        "response": {
            "output": [message(text)],
            "usage": {"input_tokens": 10, "output_tokens": len(text), "total_tokens": 10 + len(text)},
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        },
        "reward": reward,
        "extracted_answer": answer,
        "ng_perf": {
            "num_turns": 1,
            "num_tool_calls": 0,
            "prompt_tokens": 10,
            "completion_tokens": len(text),
            "total_latency_ms": 100.0,
        },
        **more,
    }


def source(task: int) -> dict[str, Any]:
    """A materialized row without its identity."""
    return {
        "question": f"What is {task} + 0?",
        "expected_answer": str(task),
        "level": 3,
        "responses_create_params": {"input": [{"role": "user", "content": f"What is {task} + 0?"}]},
        "agent_ref": {"name": "single_turn"},
        "task_source": "arithmetic",
    }


def write_output(
    folder: Path,
    results: Mapping[tuple[int, int], Mapping[str, Any]],
    *,
    tasks: int,
    repeats: int,
    failures: Iterable[tuple[int, int, str]] = (),
) -> RolloutPaths:
    """Write materialized inputs, results (in the given order) and failures."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = RolloutPaths(folder / "rollouts.jsonl")
    with paths.materialized_inputs.open("wb") as file:
        for task in range(tasks):
            for repeat in range(repeats):
                row = {"_ng_task_index": task, "_ng_rollout_index": repeat, **source(task)}
                file.write(orjson.dumps(row) + b"\n")
    lines = [
        encode_row(task, repeat, {**source(task), **fields}) for (task, repeat), fields in results.items()
    ]
    paths.output.write_bytes(b"".join(line + b"\n" for line in lines))
    failed = [encode_row(task, repeat, {"_ng_failure_class": name}) for task, repeat, name in failures]
    paths.failures.write_bytes(b"".join(line + b"\n" for line in failed))
    return paths


def benchmark_config(
    folder: Path, *, verifier: str = "{type: match, mode: numeric}", prompt: str = "{question}"
) -> Path:
    """A benchmark's config file, its data beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.jsonl").write_text('{"question": "What is 0 + 0?", "expected_answer": "0"}\n')
    path = folder / "config.yaml"
    path.write_text(
        "benchmark:\n"
        "  name: sums\n"
        "  datasets: {benchmark: {jsonl_fpath: data.jsonl}}\n"
        f"  prompt: {{user: '{prompt}'}}\n"
        f"  verifier: {verifier}\n"
    )
    return path


def run_config(path: Path, *overrides: str) -> RunConfig:
    """The configuration that `gym eval run -c PATH OVERRIDES` would have."""
    return load_run_config(
        [str(path)], None, parse_overrides(overrides), search_dirs=[], cwd=path.parent, user_env=False
    ).config


def write_manifest(paths: RolloutPaths, config: RunConfig, *, tasks: int, repeats: int) -> OutputManifest:
    """The manifest of an output that was collected with ``config``."""
    identity = identity_of(config, dataset_sha256="d" * 64, model={"name": config.policy_model_name})
    found = OutputManifest(
        run_id="run-1",
        created_at="2024-02-29T00:00:00Z",
        gym_version="0",
        gym_commit=None,
        generation=identity.generation,
        scoring=identity.scoring,
        model=identity.model,
        num_tasks=tasks,
        num_repeats=repeats,
        materialized={"sha256": "", "size": 0, "rows": tasks * repeats, "mtime_ns": 0},
    )
    found.save(paths.manifest)
    return found
