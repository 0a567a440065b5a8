"""Which planned rollouts have a result or an answer, and how often others failed: four bytes a rollout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

TERMINAL: Final = 255
"""Counted attempts of a rollout that is never tried again; fewer are a plain count."""

_INVERTED: Final = bytes((1, 0)) + bytes(254)


@dataclass(slots=True)
class AttemptIndex:
    """What is known about each planned rollout, at ``task_index * num_repeats + rollout_index``."""

    num_tasks: int
    num_repeats: int
    done: bytearray = field(init=False)
    """1 where a result is recorded."""
    attempts: bytearray = field(init=False)
    """Failed attempts that count, at most 254; `TERMINAL` where another attempt would be useless."""
    failed: bytearray = field(init=False)
    """1 where any attempt failed, counted or not."""
    answered: bytearray = field(init=False)
    """1 where an answer is stored that had no grade when it was."""
    recorded: int = 0
    reward_sum: float = 0.0
    """Of the recorded results."""

    def __post_init__(self) -> None:
        size = self.num_tasks * self.num_repeats
        self.done = bytearray(size)
        self.attempts = bytearray(size)
        self.failed = bytearray(size)
        self.answered = bytearray(size)

    def forget_results(self) -> None:
        """Forget what the results said, to read them again."""
        self.done[:] = bytes(len(self.done))
        self.recorded = 0
        self.reward_sum = 0.0

    def forget_failures(self) -> None:
        """Forget what the failures said, to read them again."""
        self.attempts[:] = self.failed[:] = bytes(len(self.done))

    def forget_answers(self) -> None:
        """Forget which answers are stored, to read them again."""
        self.answered[:] = bytes(len(self.done))

    def index(self, task_index: int, rollout_index: int) -> int | None:
        """The position of a rollout, ``None`` for one that is not planned."""
        if 0 <= task_index < self.num_tasks and 0 <= rollout_index < self.num_repeats:
            return task_index * self.num_repeats + rollout_index
        return None

    def add_results(self, tasks: list[int], rollouts: list[int]) -> bool:
        """Record the results of many rollouts, given by their indexes, which are not below 0.

        False, and nothing is recorded, where one is not planned, has a result already or is named twice.
        """
        if not tasks or max(tasks) >= self.num_tasks or max(rollouts) >= self.num_repeats:
            return False
        done, repeats = self.done, self.num_repeats
        indexes = [task * repeats + rollout for task, rollout in zip(tasks, rollouts, strict=True)]
        if len(set(indexes)) < len(indexes) or any(map(done.__getitem__, indexes)):
            return False
        for index in indexes:
            done[index] = 1
        self.recorded += len(indexes)
        return True

    def add_failure(self, index: int, *, terminal: bool, counted: bool) -> None:
        """Count one failed attempt."""
        self.failed[index] = 1
        if terminal:
            self.attempts[index] = TERMINAL
        elif counted and self.attempts[index] < TERMINAL - 1:
            self.attempts[index] += 1

    def open(self, index: int, max_attempts: int) -> bool:
        """Whether a rollout has no result and may be tried: asked, or graded where an answer is stored."""
        if self.done[index] or self.attempts[index] == TERMINAL:
            return False
        return bool(self.answered[index]) or self.attempts[index] < max_attempts

    def exhausted(self, max_attempts: int) -> int:
        """How many rollouts have no result and may not be tried again."""
        closed = _either(self.done, self._gradable())
        spent = self._spent(max_attempts)
        return spent.count(1) - _both(spent, closed).count(1)

    def final(self) -> int:
        """How many of them failed that no other attempt could fix."""
        terminal = self._spent(TERMINAL)
        return terminal.count(1) - _both(terminal, self.done).count(1)

    def wanted(self, max_attempts: int, *, failed_only: bool) -> bytes:
        """1 for each rollout that has neither result nor answer and may be asked now."""
        closed = _either(_either(self.done, self.answered), self._spent(max_attempts))
        chosen = closed.translate(_INVERTED)
        return _both(chosen, self.failed) if failed_only else bytes(chosen)

    def stored(self) -> int:
        """How many rollouts have an answer stored and no result."""
        return self.answered.count(1) - _both(self.answered, self.done).count(1)

    def ungraded(self) -> bytes:
        """1 for each rollout whose stored answer waits for its grade."""
        return _both(self._gradable(), self.done.translate(_INVERTED))

    def _gradable(self) -> bytes:
        return _both(self.answered, self._spent(TERMINAL).translate(_INVERTED))

    def _spent(self, max_attempts: int) -> bytes:
        return bytes(self.attempts).translate(bytes(attempts >= max_attempts for attempts in range(256)))


def _both(left: bytes | bytearray, right: bytes | bytearray) -> bytes:
    return (int.from_bytes(left, "little") & int.from_bytes(right, "little")).to_bytes(len(left), "little")


def _either(left: bytes | bytearray, right: bytes | bytearray) -> bytes:
    return (int.from_bytes(left, "little") | int.from_bytes(right, "little")).to_bytes(len(left), "little")
