"""Solved examples for prompts: written in the configuration, or drawn from a data set of the benchmark."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from nemo_gym.errors import ConfigError
from nemo_gym.types import Row
from nemo_runs.counts import counted

if TYPE_CHECKING:
    from nemo_gym.rollouts.run_config.prompt_schema import ExamplesConfig


@dataclass(frozen=True, slots=True)
class Examples:
    """Which examples each task is shown; the same for the same task, however many tasks there are."""

    rows: Sequence[Row]
    wanted: ExamplesConfig
    of_the_tasks: bool
    """Whether the rows are those of the tasks: then no task is shown its own."""

    @classmethod
    def of(cls, wanted: ExamplesConfig, rows: Sequence[Row], *, of_the_tasks: bool) -> Examples:
        """Examples from ``rows``; `ConfigError` where there are too few of them."""
        count = cls(rows, wanted, of_the_tasks).count
        if count + of_the_tasks > len(rows):
            where = "benchmark.prompt.examples.count"
            own = ", its own row left out for each task" if of_the_tasks else ""
            raise ConfigError(f"{where}: {count} are wanted, and there are {counted(len(rows), 'row')}{own}.")
        return cls(rows, wanted, of_the_tasks)

    @property
    def count(self) -> int:
        """How many examples a task is shown."""
        return self.wanted.count or len(self.rows)

    @property
    def sha256(self) -> str:
        """Of the rows that examples come from."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(orjson.dumps(row) + b"\n")
        return digest.hexdigest()

    def of_task(self, task_index: int) -> list[Row]:
        """The examples that one task is shown, in order."""
        order: Sequence[int] = range(len(self.rows))
        if self.wanted.draw != "first":
            seed: Any = self.wanted.seed
            if self.wanted.draw == "each_task":
                seed = f"{seed} {task_index}"
            most = min(len(self.rows), self.count + 1)
            order = random.Random(seed).sample(range(len(self.rows)), most)
        chosen = [index for index in order if not (self.of_the_tasks and index == task_index)]
        return [self.rows[index] for index in chosen[: self.count]]
