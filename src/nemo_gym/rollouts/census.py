"""Which planned rollouts have a result and how often others failed: three bytes a rollout, no rows held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_gym.errors import DataError
from nemo_gym.rollouts.rows import CHECKSUM, check_line, decode_row, read_blocks, reward_of

TERMINAL: Final = 255
"""Counted attempts of a rollout that is never tried again; fewer are a plain count."""

_NAMED: Final = 5
_OPPOSITE: Final = bytes((1, 0)) + bytes(254)
BEAT_EVERY: Final = 1 << 16
"""Lines between two signs of life while a file is read."""


@dataclass(slots=True)
class Census:
    """What is known about each planned rollout, at ``task_index * num_repeats + rollout_index``."""

    num_tasks: int
    num_repeats: int
    done: bytearray = field(init=False)
    """1 where a result is recorded."""
    attempts: bytearray = field(init=False)
    """Failed attempts that count, at most 254; `TERMINAL` where another attempt would be useless."""
    failed: bytearray = field(init=False)
    """1 where any attempt failed, counted or not."""
    recorded: int = 0
    reward_sum: float = 0.0
    """Of the recorded results."""

    def __post_init__(self) -> None:
        size = self.num_tasks * self.num_repeats
        self.done = bytearray(size)
        self.attempts = bytearray(size)
        self.failed = bytearray(size)

    def reset(self, *, results: bool) -> None:
        """Forget what one of the two files said, to read it again."""
        size = len(self.done)
        if results:
            self.done[:] = bytes(size)
            self.recorded = 0
            self.reward_sum = 0.0
        else:
            self.attempts[:] = bytes(size)
            self.failed[:] = bytes(size)

    def index(self, task_index: int, rollout_index: int) -> int | None:
        """The position of a rollout, ``None`` for one that is not planned."""
        if 0 <= task_index < self.num_tasks and 0 <= rollout_index < self.num_repeats:
            return task_index * self.num_repeats + rollout_index
        return None

    def add_failure(self, index: int, *, terminal: bool, counted: bool) -> None:
        """Count one failed attempt."""
        self.failed[index] = 1
        if terminal:
            self.attempts[index] = TERMINAL
        elif counted and self.attempts[index] < TERMINAL - 1:
            self.attempts[index] += 1

    def open(self, index: int, max_attempts: int) -> bool:
        """Whether a rollout has no result and may be tried."""
        return not self.done[index] and self.attempts[index] < max_attempts

    def exhausted(self, max_attempts: int) -> int:
        """How many rollouts have no result and may not be tried again."""
        return self._spent(max_attempts).count(1) - _both(self._spent(max_attempts), self.done).count(1)

    def wanted(self, max_attempts: int, *, failed_only: bool) -> bytes:
        """1 for each rollout that has no result and may be tried, 0 for the others, as it stands now."""
        closed = _either(self.done, self._spent(max_attempts))
        chosen = closed.translate(_OPPOSITE)
        return _both(chosen, self.failed) if failed_only else bytes(chosen)

    def _spent(self, max_attempts: int) -> bytes:
        return bytes(self.attempts).translate(bytes(attempts >= max_attempts for attempts in range(256)))


@dataclass(slots=True)
class Tally:
    """What was found wrong in one file; line numbers count from 1."""

    lines: int = 0
    kept: int = 0
    damaged: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    strays: list[int] = field(default_factory=list)
    """Whole rows of rollouts that are not planned."""

    @property
    def clean(self) -> bool:
        """Whether every line is a row that is wanted."""
        return self.kept == self.lines

    def refuse(self, line: bytes) -> bool:
        """Note the last line as damaged, or as no row of ours; always ``False``."""
        (self.strays if _is_foreign(line) else self.damaged).append(self.lines)
        return False

    def sentences(self, path: Path, aside: Path) -> list[str]:
        """Say for people what was set aside, where it was and where it is now."""
        kinds = (
            (self.damaged, "damaged", "what is missing is collected again"),
            (self.duplicates, "of a rollout that has a result already", "the first one counts"),
            (self.strays, "of no planned rollout", "it does not count"),
        )
        return [
            f"{path}: line {_numbers(lines)} {what}; set aside in {aside.name}, {then}."
            for lines, what, then in kinds
            if lines
        ]


def take_results(census: Census, tally: Tally) -> Callable[[bytes], bool]:
    """A judge of result lines, asked once a line in order: first result of a planned rollout wins."""
    done, num_tasks, num_repeats = census.done, census.num_tasks, census.num_repeats

    def wanted(line: bytes) -> bool:
        tally.lines += 1
        identity = check_line(line)
        if identity is None:
            return tally.refuse(line)
        task_index, rollout_index = identity
        if task_index >= num_tasks or rollout_index >= num_repeats:
            tally.strays.append(tally.lines)
            return False
        index = task_index * num_repeats + rollout_index
        if done[index]:
            tally.duplicates.append(tally.lines)
            return False
        done[index] = 1
        census.recorded += 1
        census.reward_sum += reward_of(line)
        tally.kept += 1
        return True

    return wanted


def take_failures(census: Census, tally: Tally) -> Callable[[bytes], bool]:
    """A judge of failure lines: every whole one of a planned rollout counts."""

    def wanted(line: bytes) -> bool:
        tally.lines += 1
        identity = check_line(line)
        if identity is None:
            return tally.refuse(line)
        index = census.index(*identity)
        if index is None:
            tally.strays.append(tally.lines)
            return False
        terminal, counted = False, True
        if b"_ng_failure_terminal" in line or b"_ng_failure_counted" in line:
            row = decode_row(line)
            terminal = row.get("_ng_failure_terminal") is True
            counted = row.get("_ng_failure_counted") is not False
        census.add_failure(index, terminal=terminal, counted=counted)
        tally.kept += 1
        return True

    return wanted


def survey(path: Path, wanted: Callable[[bytes], bool], beat: Callable[[], None]) -> None:
    """Show every whole line of a file to a judge; ``beat`` is called now and then. A missing file has no
    lines.
    """
    try:
        for block in read_blocks(path):
            beat()
            for line in block.split(b"\n"):
                wanted(line)
    except FileNotFoundError:
        return


def _both(left: bytes | bytearray, right: bytes | bytearray) -> bytes:
    return (int.from_bytes(left, "little") & int.from_bytes(right, "little")).to_bytes(len(left), "little")


def _either(left: bytes | bytearray, right: bytes | bytearray) -> bytes:
    return (int.from_bytes(left, "little") | int.from_bytes(right, "little")).to_bytes(len(left), "little")


def _is_foreign(line: bytes) -> bool:
    """Whether a line is a whole JSON object that merely is no row of ours."""
    try:
        return CHECKSUM not in decode_row(line) and b'"_ng_crc32"' not in line
    except DataError:
        return False


def _numbers(lines: list[int]) -> str:
    shown = ", ".join(str(number) for number in lines[:_NAMED])
    if len(lines) == 1:
        return f"{shown} is"
    more = len(lines) - _NAMED
    return f"{shown} and {more} more are" if more > 0 else f"{shown} are"
