"""Time from opening an output with many rows to its first pending rollout, beside ``json.loads`` of each row.

    python bench/store_resume.py --rows 1000000

Both are timed in processes of their own on the same warm file, by CPU time, which other work on the machine
moves little. One JSON document on stdout: seconds, the ratio (aim: a fifth; at most 0.3) and the opener's
peak memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.rows import encode_row
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.run_config.identity import Identity
from nemo_runs.clock import SystemClock

REPEATS = 8


def inputs(tasks: int) -> Iterator[bytes]:
    question = "What is 7 + 5? Answer with the number only."
    for task in range(tasks):
        for rollout in range(REPEATS):
            yield (
                b'{"_ng_task_index":%d,"_ng_rollout_index":%d,"responses_create_params":{"input":[{"role":"user",'
                b'"content":"%s"}],"temperature":0.7,"max_output_tokens":512},"agent_ref":{"name":"single_turn"}}'
            ) % (task, rollout, question.encode())


def result(answer: str) -> dict[str, Any]:
    """A result row of about 1.2 kB, as the single-turn agent writes it."""
    usage = {"input_tokens": 21, "output_tokens": 180, "total_tokens": 201}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]}
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": "What is 7 + 5?"}],
            "temperature": 0.7,
        },
        "agent_ref": {"name": "single_turn"},
        "task_source": "arithmetic",
        "response": {"object": "response", "status": "completed", "output": [message], "usage": usage},
        "reward": 1.0,
        "extracted_answer": "12",
        "ng_perf": {"total_latency_ms": 812.4, "prompt_tokens": 21, "completion_tokens": 180},
    }


def open_store(folder: Path, tasks: int, resume: bool) -> OutputStore:
    return OutputStore.open(
        RolloutPaths(folder / "rollouts.jsonl"),
        identity=Identity({"benchmark": {"name": "b"}}, {}),
        rows=partial(inputs, tasks),
        num_tasks=tasks,
        num_repeats=REPEATS,
        max_attempts=3,
        resume=resume,
        allow_unsafe=False,
        link={},
        clock=SystemClock(),
    )


def fill(folder: Path, tasks: int) -> None:
    """Record all rollouts but the last one, written straight to the file."""
    open_store(folder, tasks, resume=False).close()
    fields = result("Seven plus five makes twelve. " * 20 + "The answer is 12.")
    with (folder / "rollouts.jsonl").open("ab", buffering=1 << 20) as file:
        for index in range(tasks * REPEATS - 1):
            file.write(encode_row(*divmod(index, REPEATS), fields) + b"\n")


def resume(folder: Path, tasks: int) -> None:
    with open_store(folder, tasks, resume=True) as store:
        task = next(store.pending())
        assert (task.task_index, task.rollout_index) == (tasks - 1, REPEATS - 1)


def parse_all(folder: Path) -> None:
    with (folder / "rollouts.jsonl").open("rb") as file:
        for line in file:
            json.loads(line)


def measured(action: Callable[[], None]) -> tuple[float, float]:
    """CPU seconds and peak MiB of an action in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (action,))


def _measure(action: Callable[[], None]) -> tuple[float, float]:
    started = time.process_time()
    action()
    return time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="recorded rows (1000000)")
    options = parser.parse_args()
    tasks = max(options.rows // REPEATS, 1)
    with tempfile.TemporaryDirectory(prefix="resume-") as name:
        folder = Path(name)
        fill(folder, tasks)
        size = (folder / "rollouts.jsonl").stat().st_size
        plain, _ = measured(partial(parse_all, folder))
        ours, peak = measured(partial(resume, folder, tasks))
    print(
        json.dumps(
            {
                "rows": tasks * REPEATS,
                "bytes_a_row": round(size / (tasks * REPEATS)),
                "resume_s": round(ours, 2),
                "json_loads_s": round(plain, 2),
                "ratio": round(ours / plain, 2),
                "peak_mib": round(peak),
            }
        )
    )
    return 0 if ours <= 0.3 * plain else 1


if __name__ == "__main__":
    sys.exit(main())
