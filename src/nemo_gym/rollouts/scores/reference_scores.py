"""The scores of another run on the same tasks, task by task."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import orjson

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.manifest import OutputManifest
from nemo_gym.rollouts.output.outputs_at import no_benchmark, outputs_at
from nemo_gym.rollouts.run_config.identity import differences
from nemo_gym.rollouts.scores.compare import measured_tasks
from nemo_gym.rollouts.scores.group_scores import task_rows
from nemo_gym.types import Row
from nemo_runs.counts import counted

_WHERE = "until.better_than"
_NAMED = 5


def reference_output(name: str, benchmark: str) -> RolloutPaths:
    """The output of a benchmark at a path; the only one whatever it is called.

    Raises `ConfigError` where there is none.
    """
    try:
        found = outputs_at(Path(name))
    except DataError as error:
        raise ConfigError(f"{_WHERE}: {error}") from error
    if len(found) == 1:
        return next(iter(found.values()))
    if benchmark not in found:
        raise ConfigError(f"{_WHERE}: {no_benchmark(name, benchmark, list(found))}.")
    return found[benchmark]


def reference_scores(paths: RolloutPaths, own: RolloutPaths, manifest: OutputManifest) -> list[float]:
    """The scores in the output ``paths`` of the tasks that ``own`` with its ``manifest`` plans, in order.

    Raises `ConfigError` where a task is another one there, has no score, or was graded in another way.
    """
    try:
        measured = measured_tasks(paths)
    except DataError as error:
        raise ConfigError(f"{_WHERE}: {error}") from error
    graded = differences(measured.manifest.scoring, manifest.scoring)
    if graded:
        raise ConfigError(
            f"{_WHERE}: {paths.output} was graded in another way: {'; '.join(graded)}. Grade it again with "
            "`gym eval reverify`."
        )
    count = manifest.num_tasks
    theirs = list(_digests(paths, measured.manifest))
    ours = list(_digests(own, manifest))
    other = [task for task in range(count) if task >= len(theirs) or theirs[task] != ours[task]]
    if other:
        raise ConfigError(
            f"{_WHERE}: {paths.output} has other tasks: {_some(other)} of {counted(count, 'task')} "
            f"{'differs' if len(other) == 1 else 'differ'} in row or prompt, or "
            f"{'is' if len(other) == 1 else 'are'} not there. Tasks are compared in pairs, which needs the "
            "same data and prompt."
        )
    missing = [task for task in range(count) if math.isnan(measured.means[task])]
    if missing:
        raise ConfigError(
            f"{_WHERE}: {paths.output} has no score for {_some(missing)} of {counted(count, 'task')}; "
            "finish that run first."
        )
    return list(measured.means[:count])


def _some(tasks: list[int]) -> str:
    named = ", ".join(map(str, tasks[:_NAMED]))
    more = f" and {len(tasks) - _NAMED:,} more" if len(tasks) > _NAMED else ""
    return f"task {named}{more}" if len(tasks) == 1 else f"tasks {named}{more}"


def _digests(paths: RolloutPaths, manifest: OutputManifest) -> Iterator[bytes]:
    """The digest of each task: its row, and what is asked, but not of whom and how."""
    for row in task_rows(paths, manifest.num_repeats):
        yield _digest(row)


def _digest(row: Row) -> bytes:
    asked = row.get("responses_create_params")
    asked = asked if isinstance(asked, dict) else {}
    task = {key: value for key, value in row.items() if not key.startswith("_ng_") and key not in _OF_RUN}
    task["asked"] = {key: asked.get(key) for key in ("input", "tools")}
    return hashlib.sha256(orjson.dumps(task, option=orjson.OPT_SORT_KEYS)).digest()


_OF_RUN = frozenset({"responses_create_params", "agent_ref", "task_source"})
