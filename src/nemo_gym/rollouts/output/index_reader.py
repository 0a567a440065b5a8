"""Reading an output's files into the attempt index: who has a result, answer, failure; what is not a row.

A million rows are read in seconds: a well-framed row of ours is known by its first and last bytes and the
checksum between them, no JSON is parsed and no row is held. Every other line takes the slow way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import batches
from nemo_gym.rollouts.output.attempt_index import AttemptIndex
from nemo_gym.rollouts.output.batches import read_batches
from nemo_gym.rollouts.output.framing import whole_rows
from nemo_gym.rollouts.output.rows import CHECKSUM, decode_row, reward_of

_NAMED: Final = 5
BEAT_EVERY: Final = 1 << 16
"""Lines between two signs of life while a file is read."""


@dataclass(slots=True)
class FileTally:
    """What was found in one file; line numbers count from 1."""

    lines: int = 0
    kept: int = 0
    """Rows that count."""
    damaged: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    strays: list[int] = field(default_factory=list)
    """Whole rows of rollouts that are not planned."""
    reframed: list[int] = field(default_factory=list)
    """Lines that were not rows as they were written, but held rows or nothing."""
    spare: int = 0
    """Rows that are of no use any more and may go."""

    @property
    def clean(self) -> bool:
        """Whether every line is a row that is wanted."""
        return not (self.damaged or self.duplicates or self.strays or self.reframed or self.spare)

    @property
    def only_spare(self) -> bool:
        """Whether only unusable rows keep the file from being clean."""
        return bool(self.spare) and not (self.damaged or self.duplicates or self.strays or self.reframed)

    def forget_last(self) -> None:
        """Leave out the last line, which was a torn tail and is reported as one."""
        for lines in (self.damaged, self.strays):
            while lines and lines[-1] == self.lines:
                lines.pop()

    def sentences(self, path: Path, aside: Path) -> list[str]:
        """Say for people what was set aside, where it was and where it is now."""
        kinds = (
            (self.damaged, "damaged", "what is missing is collected again"),
            (self.duplicates, "of a rollout that has a result already", "the first one counts"),
            (self.strays, "of no planned rollout", "it does not count"),
        )
        said = [
            f"{path}: line {_numbers(lines)} {what}; set aside in {aside.name}, {then}."
            for lines, what, then in kinds
            if lines
        ]
        if self.reframed:
            said.append(
                f"{path}: line {_numbers(self.reframed)} not framed as rows are (line ends of another "
                "system, a byte-order mark, padding, or rows joined); every whole row in it is kept."
            )
        return said


Take = Callable[[bytes], tuple[Sequence[bytes], bytes]]


class RowIndexer(ABC):
    """Takes the lines of one file into the attempt index, in order; each kind says which rows count."""

    def __init__(self, attempt_index: AttemptIndex) -> None:
        self.attempt_index = attempt_index
        self.tally = FileTally()

    def take(self, line: bytes) -> tuple[Sequence[bytes], bytes]:
        """Take one line: the rows in it that count, and what of it does not (``b""``: nothing)."""
        tally = self.tally
        tally.lines += 1
        rows, rest = whole_rows(line)
        if len(rows) != 1 or rows[0][0] is not line:
            if rows or not rest:
                tally.reframed.append(tally.lines)
            if rest:
                (tally.strays if _is_foreign(rest) else tally.damaged).append(tally.lines)
        kept: list[bytes] = []
        aside = [rest] if rest else []
        for row, identity in rows:
            index = self.attempt_index.index(*identity)
            if index is None:
                tally.strays.append(tally.lines)
                aside.append(row)
            elif self._wanted(index, row):
                tally.kept += 1
                kept.append(row)
            elif not self._spare(index):
                tally.duplicates.append(tally.lines)
                aside.append(row)
            else:
                tally.spare += 1
        return kept, b"\n".join(aside)

    def take_batch(self, lines: list[bytes]) -> None:
        """Take lines with their line feeds; a file's last one may lack it."""
        for line in lines:
            self.take(line.removesuffix(b"\n"))

    @abstractmethod
    def _wanted(self, index: int, row: bytes) -> bool:
        """Whether a row of a planned rollout counts."""

    def _spare(self, _index: int) -> bool:
        """Whether a row that does not count is of no use to anybody."""
        return False


class Results(RowIndexer):
    """Results: the first one of a planned rollout counts."""

    def take_batch(self, lines: list[bytes]) -> None:
        """The same, all at once where each line is a row that counts, just as it was written."""
        found = batches.identities(lines)
        if found is not None and self.attempt_index.add_results(*found):
            self.attempt_index.reward_sum += batches.rewards(lines)
            self.tally.lines += len(lines)
            self.tally.kept += len(lines)
        else:
            super().take_batch(lines)

    def _wanted(self, index: int, row: bytes) -> bool:
        if self.attempt_index.done[index]:
            return False
        self.attempt_index.done[index] = 1
        self.attempt_index.recorded += 1
        self.attempt_index.reward_sum += reward_of(row)
        return True


class Failures(RowIndexer):
    """Failures: every whole one of a planned rollout counts."""

    def _wanted(self, index: int, row: bytes) -> bool:
        terminal, counted = False, True
        if b"_ng_failure_terminal" in row or b"_ng_failure_counted" in row:
            fields = decode_row(row)
            terminal = fields.get("_ng_failure_terminal") is True
            counted = fields.get("_ng_failure_counted") is not False
        self.attempt_index.add_failure(index, terminal=terminal, counted=counted)
        return True


class Answers(RowIndexer):
    """Stored answers: those of rollouts without a result count, once each. To be read after the results."""

    def _wanted(self, index: int, _row: bytes) -> bool:
        if self.attempt_index.done[index] or self.attempt_index.answered[index]:
            return False
        self.attempt_index.answered[index] = 1
        return True

    def _spare(self, _index: int) -> bool:
        return True


class TurnEntries(RowIndexer):
    """Stored turns: those of rollouts without result and answer count. To be read after both."""

    def _wanted(self, index: int, _row: bytes) -> bool:
        return not (self.attempt_index.done[index] or self.attempt_index.answered[index])

    def _spare(self, _index: int) -> bool:
        return True


def index_file(path: Path, indexer: RowIndexer, beat: Callable[[], None], *, tail: bool = False) -> None:
    """Give every line of a file to its indexer, and what follows the last line feed if ``tail`` asks for it.

    ``beat`` is called now and then. A missing file has no lines.
    """
    try:
        for lines in read_batches(path, tail=tail):
            beat()
            indexer.take_batch(lines)
    except FileNotFoundError:
        return


def nothing_to_ask(paths: RolloutPaths, num_tasks: int, num_repeats: int, max_attempts: int) -> bool:
    """Whether no planned rollout needs a request any more, as the files say; nothing is changed.

    Every rollout has a result or a stored answer, or may not be tried again. Each file is read once.
    """
    attempt_index = AttemptIndex(num_tasks, num_repeats)
    for path, kind in ((paths.output, Results), (paths.failures, Failures), (paths.answers, Answers)):
        indexer = kind(attempt_index)
        index_file(path, indexer, lambda: None, tail=True)
    return not any(attempt_index.wanted(max_attempts, failed_only=False))


def _is_foreign(line: bytes) -> bool:
    """Whether a line is a whole JSON object that merely is not a row of ours."""
    try:
        return CHECKSUM not in decode_row(line) and b'"_ng_crc32"' not in line
    except DataError:
        return False


def _numbers(lines: list[int]) -> str:
    lines = list(dict.fromkeys(lines))
    shown = ", ".join(str(number) for number in lines[:_NAMED])
    if len(lines) == 1:
        return f"{shown} is"
    more = len(lines) - _NAMED
    return f"{shown} and {more} more are" if more > 0 else f"{shown} are"
