"""Benchmarks by the name ``lm_eval/TASK``: the configuration that such a name stands for, and the list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.errors import ConfigError

if TYPE_CHECKING:
    from nemo_gym.harness.process import Worker

PREFIX = "lm_eval/"
TYPE = "lm_eval"
"""The type of the agent that asks for such a benchmark, and of the verifier that grades it."""
_PREFIXED = re.compile(r"lm[-_]?(?:eval|evaluation)(?:[-_]?harness)?[/:.](.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HarnessTask:
    """One name that can be run."""

    name: str
    kind: str
    """``task``, ``group`` or ``tag``."""
    output_type: str | None
    """Of a task: ``generate_until``, ``multiple_choice``, ``loglikelihood`` or ``loglikelihood_rolling``."""
    data: str | None
    """The data set that it reads."""
    path: str | None
    """Where it is defined."""


def is_name(name: str) -> bool:
    """Whether a benchmark's name means a task of lm-eval."""
    return name.startswith(PREFIX) and len(name) > len(PREFIX)


def meant(name: str) -> str | None:
    """The name of a task as it is written here, for one with lm-eval's own name before it."""
    match = _PREFIXED.fullmatch(name)
    return f"{PREFIX}{match[1]}" if match and not name.startswith(PREFIX) else None


def configuration(name: str) -> dict[str, Any]:
    """The configuration that ``lm_eval/TASK`` stands for."""
    return {
        "benchmark": {
            "name": name,
            "lm_eval": {"task": name.removeprefix(PREFIX)},
            "datasets": {},
            "agent": {"type": TYPE},
            "verifier": {"type": TYPE},
        }
    }


def listed(include_path: Sequence[Path], *, report: Callable[[str], None]) -> list[HarnessTask]:
    """Every name that can be run: lm-eval's own, and those of one's own folders in their place."""
    from nemo_gym.harness import environment
    from nemo_gym.harness.process import Worker

    python = environment.ensure_python(report)
    worker = Worker(python, environment.worker_environ(offline=True))
    try:
        rows = {row["name"]: row for row in json.loads(shipped_index(worker, report).read_text("utf-8"))}
        own = worker.ask("names", include_path=[str(folder) for folder in include_path], shipped=False)
    finally:
        worker.close()
    rows |= {row["name"]: row for row in own}
    return [
        HarnessTask(PREFIX + name, row["kind"], row["output_type"], row["data"], row["path"])
        for name, row in sorted(rows.items())
    ]


def check(task: str, include_path: Sequence[Path]) -> None:
    """Raise `ConfigError` for a name that lm-eval does not have, where its names were read here before.

    Names of one's own folders are only known to the process that has lm-eval.
    """
    from nemo_gym.harness import environment
    from nemo_runs.suggestions import suggestion

    path = environment.index_file()
    if include_path or not path.is_file():
        return
    known = [row["name"] for row in json.loads(path.read_text("utf-8"))]
    if task not in known:
        raise ConfigError(f"there is no {PREFIX}{task}{suggestion(task, known)}.")


def shipped_index(worker: Worker, report: Callable[[str], None]) -> Path:
    """The file with the names of lm-eval's own tasks, made once for each version of it."""
    from nemo_gym.harness import environment
    from nemo_runs.durable.files import replace_file

    path = environment.index_file()
    if not path.is_file():
        report("reading the definitions of lm-eval once; this takes up to a minute")
        rows = worker.ask("names", include_path=[], shipped=True)
        replace_file(path, json.dumps(rows).encode())
    return path
