"""Where each rollout of an output is in its files, and which of them are wanted.

One pass over each file notes an offset for each rollout; rows are read again only when they are shown. So a
million rows are looked through in little memory, and what a collector adds meanwhile does no harm.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.framing import whole_rows
from nemo_gym.rollouts.output.rows import decode_row
from nemo_gym.rollouts.reading.row_facts import is_cut, is_wrong, latency_of
from nemo_gym.types import Row
from nemo_runs.durable import disk, files

SLOWEST = 10
"""Rollouts that are the slow ones, where no other number is asked for."""

Place = tuple[int, int]
"""Task index and rollout index."""


@dataclass(frozen=True, slots=True)
class RolloutFilter:
    """Which rollouts are wanted. Several of the first three: each that is one of them; none: all."""

    failed: bool = False
    """Without a result, after at least one failed attempt."""
    wrong: bool = False
    """With a reward below 1."""
    truncated: bool = False
    """Whose answer stopped at the token limit."""
    slow: bool = False
    """The slowest of those that the others leave, slowest first: `limit`, else `SLOWEST`."""
    task: int | None = None
    """Of this task alone, counted from 0."""
    limit: int | None = None

    @property
    def of_kind(self) -> bool:
        """Whether only some kinds are wanted."""
        return self.failed or self.wrong or self.truncated


@dataclass(slots=True)
class LocatedRollouts:
    """Offsets of rows by rollout, in three files."""

    paths: RolloutPaths
    results: dict[Place, int] = field(default_factory=dict)
    failures: dict[Place, list[int]] = field(default_factory=dict)
    answers: dict[Place, int] = field(default_factory=dict)
    """Stored answers that have no grade yet."""
    inputs: dict[Place, int] | None = None
    """Rows as they were materialized; ``None``: they are looked for when one is needed."""

    def result(self, place: Place) -> Row | None:
        """The row that counts; ``None`` while there is none."""
        return _row_at(self.paths.output, self.results.get(place), place)

    def answer(self, place: Place) -> Row | None:
        """The stored answer that waits for its grade."""
        return _row_at(self.paths.answers, self.answers.get(place), place)

    def failed_attempts(self, place: Place) -> list[Row]:
        """The failed attempts, oldest first."""
        found = (_row_at(self.paths.failures, at, place) for at in self.failures.get(place, ()))
        return [row for row in found if row is not None]

    def planned(self, places: list[Place]) -> dict[Place, Row]:
        """The materialized rows of some rollouts, as far as they can be read."""
        if self.inputs is None:
            return planned_rows(self.paths, places)
        found = {
            place: _row_at(self.paths.materialized_inputs, self.inputs.get(place), place) for place in places
        }
        return {place: row for place, row in found.items() if row is not None}

    def known(self) -> list[Place]:
        """Every rollout of which something is recorded, in order."""
        return sorted({*self.results, *self.failures, *self.answers})


def locate(paths: RolloutPaths) -> LocatedRollouts:
    """Read where the rows of an output are; damaged rows and second results are passed over."""
    found = LocatedRollouts(paths)
    for place, at, _ in _rows(paths.output):
        found.results.setdefault(place, at)
    for place, at, _ in _rows(paths.answers):
        if place not in found.results:
            found.answers.setdefault(place, at)
    for place, at, _ in _rows(paths.failures):
        found.failures.setdefault(place, []).append(at)
    return found


def selected(located: LocatedRollouts, wanted: RolloutFilter) -> list[Place]:
    """The rollouts that are wanted, by task and repeat, or slowest first where slow ones are asked for."""
    places = [place for place in located.known() if wanted.task in (None, place[0])]
    if wanted.of_kind:
        kinds = _of_kinds(located, wanted)
        places = [place for place in places if place in kinds]
    if wanted.slow:
        return _slowest(located.paths, frozenset(places), wanted.limit or SLOWEST)
    return places[: wanted.limit]


def planned_rows(paths: RolloutPaths, places: list[Place]) -> dict[Place, Row]:
    """The materialized rows of some rollouts, as far as they can be read."""
    wanted = set(places)
    rows = _rows(paths.materialized_inputs) if wanted else iter(())
    return {place: decode_row(line) for place, _, line in rows if place in wanted}


def _of_kinds(located: LocatedRollouts, wanted: RolloutFilter) -> set[Place]:
    found: set[Place] = set()
    if wanted.failed:
        found |= located.failures.keys() - located.results.keys()
    if wanted.wrong or wanted.truncated:
        for place, _, line in _rows(located.paths.output):
            if (wanted.wrong and is_wrong(line)) or (wanted.truncated and is_cut(line)):
                found.add(place)
    return found


def _slowest(paths: RolloutPaths, places: frozenset[Place], count: int) -> list[Place]:
    timed = ((latency_of(line), place) for place, _, line in _rows(paths.output) if place in places)
    slow = heapq.nlargest(count, ((latency, place) for latency, place in timed if latency is not None))
    return list(dict.fromkeys(place for _, place in slow))


def _rows(path: Path) -> Iterator[tuple[Place, int, bytes]]:
    """Each whole row: whose it is, where its line begins, its bytes. A torn tail is left out."""
    at = 0
    try:
        for line in files.read_lines(path):
            for row, place in whole_rows(line)[0]:
                yield place, at, row
            at += len(line) + 1
    except FileNotFoundError:
        return


def _row_at(path: Path, at: int | None, place: Place) -> Row | None:
    if at is None:
        return None
    with open(path, "rb", opener=disk.regular) as file:
        file.seek(at)
        line = file.readline().removesuffix(b"\n")
    return next((decode_row(row) for row, owner in whole_rows(line)[0] if owner == place), None)
