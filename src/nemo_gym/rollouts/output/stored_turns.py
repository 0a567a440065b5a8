"""Turns of rollouts that are not over: what was asked and paid for is there for the next attempt.

The file exists only where an agent stores turns. An entry counts while its rollout has neither result nor
stored answer, and all entries before it are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nemo_gym.rollouts.output import framing
from nemo_gym.rollouts.output.attempt_index import AttemptIndex
from nemo_gym.rollouts.output.rows import decode_row, encode_row
from nemo_gym.types import Row, Task
from nemo_runs.durable.files import RowAppender

NUMBER: Final = "_ng_turn_entry"
"""Key of an entry: how many its rollout has before it."""
_ENTRY: Final = "entry"


class StoredTurns:
    """The entries of unfinished rollouts, in memory and in their file; for the thread of the store."""

    def __init__(self, path: Path, attempt_index: AttemptIndex, clock: Callable[[], float]) -> None:
        self._path = path
        self._attempt_index = attempt_index
        self._clock = clock
        self._appender: RowAppender | None = None
        self._entries: dict[int, list[Row]] = {}
        if path.is_file():
            self._appender = RowAppender(path, clock=clock)
            self._read()

    @property
    def appender(self) -> RowAppender | None:
        """The writer of the file, where there is one."""
        return self._appender

    def of(self, index: int) -> Sequence[Row]:
        """The entries of a rollout, oldest first."""
        return tuple(self._entries.get(index, ()))

    def add(self, index: int, task: Task, entry: Mapping[str, Any]) -> None:
        """Store one more; raises as `nemo_gym.rollouts.output.store.OutputStore.record` does."""
        if self._appender is None:
            self._appender = RowAppender(self._path, clock=self._clock)
        entries = self._entries.setdefault(index, [])
        fields = {NUMBER: len(entries), _ENTRY: dict(entry)}
        self._appender.append(encode_row(task.task_index, task.rollout_index, fields))
        entries.append(dict(entry))

    def forget(self, index: int) -> None:
        """Its rollout is over: what it came to is stored elsewhere."""
        self._entries.pop(index, None)

    def sync(self, *, worth_emptying: int) -> None:
        """Make entries durable; a file of which nothing counts, and that is large, is emptied."""
        if self._appender is not None:
            self._appender.sync()
            if not self._entries and self._appender.offset >= worth_emptying:
                self._appender.empty()

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._appender is not None:
            self._appender.close()

    def remove_if_unused(self) -> None:
        """Remove the file where nothing in it counts."""
        if self._appender is not None and not self._entries:
            self._path.unlink(missing_ok=True)

    def _read(self) -> None:
        known = self._attempt_index
        for _, line, identity in framing.read_rows(self._path):
            index = None if identity is None else known.index(*identity)
            if index is None or known.done[index] or known.answered[index]:
                continue
            row = decode_row(line)
            entries = self._entries.setdefault(index, [])
            if row.get(NUMBER) == len(entries) and isinstance(row.get(_ENTRY), dict):
                entries.append(row[_ENTRY])
