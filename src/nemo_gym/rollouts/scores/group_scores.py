"""Scores of groups of tasks: those whose rows share the value of a field, as ``benchmark.group_by`` asks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final

import orjson

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores.columns import Columns
from nemo_gym.rollouts.scores.statistics import LEVEL, ClusterSums, clustered_interval
from nemo_gym.types import Row
from nemo_runs.counts import counted
from nemo_runs.durable import files

MOST_GROUPS: Final = 500
"""Of one field; with more, every row might be a group of its own."""
MOST_SHOWN: Final = 20
"""Groups of one field that are printed."""
NONE: Final = "(none)"
"""The group of rows in which a field is missing, null or an empty list."""


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The score of one group."""

    by: str
    """The field."""
    group: str
    """Its value, as text."""
    mean: float | None
    """Mean reward over the measured rollouts; ``None`` when nothing was measured."""
    low: float | None
    high: float | None
    """Ends of the 95 % interval, clustered by task."""
    tasks: int
    """Tasks in the group."""
    measured: int
    """Rollouts that count."""

    def to_json(self) -> dict[str, Any]:
        """As the summary has it."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """For a person."""
        tasks = counted(self.tasks, "task")
        if self.mean is None or self.low is None or self.high is None:
            return f"{self.by}={self.group}  nothing measured  ({tasks})"
        between = f"{LEVEL:.0%} interval {self.low:.1%} to {self.high:.1%}"
        return f"{self.by}={self.group}  {self.mean:.1%}  ({between}, {tasks})"


def group_lines(groups: Sequence[GroupScore]) -> list[str]:
    """The first groups of each field for a person; all of them are in the files."""
    lines: list[str] = []
    for by in dict.fromkeys(group.by for group in groups):
        of_field = [group.sentence for group in groups if group.by == by]
        lines += of_field[:MOST_SHOWN]
        if len(of_field) > MOST_SHOWN:
            lines.append(f"{by}: {len(of_field) - MOST_SHOWN:,} more, which --json shows")
    return lines


def task_rows(paths: RolloutPaths, num_repeats: int) -> Iterator[Row]:
    """The input row of each task: every so-manieth materialized row, since they are ordered by task."""
    try:
        for line in islice(files.read_lines(paths.materialized_inputs), 0, None, num_repeats):
            yield orjson.loads(line)
    except (FileNotFoundError, ValueError):
        return


def members(rows: Iterable[Row], by: str) -> dict[str, list[int]]:
    """Group → indexes of its tasks, in the order of values; a row with a list is in several groups."""
    found: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        value = row.get(by)
        values = value if isinstance(value, list) and value else [value]
        for each in dict.fromkeys(map(_text, values)):
            found.setdefault(each, []).append(index)
    return dict(sorted(found.items(), key=_order))


def score_groups(
    columns: Columns, rows: Sequence[Mapping[str, Any]], group_by: Sequence[str]
) -> tuple[list[GroupScore], list[str]]:
    """The score of every group, and notes about fields with too many; ``rows`` are those of the tasks."""
    scores, notes = [], []
    flags = columns.flagged(cols.MEASURED)
    for by in group_by:
        groups = members(map(dict, rows), by)
        if len(groups) > MOST_GROUPS:
            notes.append(
                f"the field {by} has {counted(len(groups), 'value')}, more than the {MOST_GROUPS} groups "
                "that are scored"
            )
            continue
        scores += [_score(columns, flags, by, group, tasks) for group, tasks in groups.items()]
    return scores, notes


def _score(columns: Columns, flags: bytes, by: str, group: str, tasks: Sequence[int]) -> GroupScore:
    sums, measured = ClusterSums(), 0
    for task in tasks:
        first = task * columns.num_repeats
        there = [at for at in range(first, first + columns.num_repeats) if flags[at]]
        if there:
            sums.add(math.fsum(columns.reward[at] for at in there), len(there))
            measured += len(there)
    found = clustered_interval(sums)
    if found is None:
        return GroupScore(by, group, None, None, None, len(tasks), 0)
    return GroupScore(by, group, found.mean, found.low, found.high, len(tasks), measured)


def _text(value: Any) -> str:
    if value is None or value in ([], ""):
        return NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _order(item: tuple[str, list[int]]) -> tuple[bool, float, str]:
    """Rows without a value last, numbers by their size, everything else by the alphabet."""
    try:
        size = float(item[0])
    except ValueError:
        size = math.inf
    return item[0] == NONE, size if not math.isnan(size) else math.inf, item[0]
