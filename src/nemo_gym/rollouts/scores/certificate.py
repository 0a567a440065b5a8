"""A certificate over one output: every expected identity once, nothing torn or damaged, all digests right.

Read-only, and one byte a planned rollout beside one block of the file: rows are never held. Each problem
becomes a sentence; an output without sentences is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.framing import is_whole, whole_rows
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest
from nemo_gym.rollouts.output.result_rows import END_FIELD, NOT_GRADED_FIELD
from nemo_gym.rollouts.output.rows import CHECKSUM
from nemo_runs.counts import counted
from nemo_runs.durable.files import read_document

LONGEST_ROW: Final = 256 << 20
"""Bytes above which a row counts as damaged without being held."""
MOST_ROLLOUTS: Final = 1 << 32
"""Planned rollouts above which a manifest is not believed."""

_BLOCK: Final = 1 << 18
_NAMED: Final = 5
_SUM: Final = f'"{CHECKSUM}":"'.encode()
_END: Final = re.compile(f',"{END_FIELD}":"([a-z_]{{1,40}})"'.encode()).search
_NOT_GRADED: Final = f',"{NOT_GRADED_FIELD}":"'.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was found in one output. Counts are of lines, except ``missing``, of identities."""

    expected: int | None
    """`None` when no manifest says how many there should be."""
    present: int = 0
    """Expected identities with a whole row, each counted once."""
    missing: int = 0
    first_missing: list[tuple[int, int]] = field(default_factory=list)
    """The first few as (task, repeat)."""
    damaged: int = 0
    duplicates: int = 0
    strays: int = 0
    """Rows of rollouts that nobody planned."""
    torn_bytes: int = 0
    """Bytes behind the last newline."""
    unsummed: int = 0
    """Whole rows without a checksum, as other collectors write them."""
    ends: dict[str, int] = field(default_factory=dict)
    """Expected rollouts whose answer did not end well, by its end (`nemo_gym.types.AnswerEnd`)."""
    not_graded: int = 0
    """Those of them that no verifier has seen and that have reward 0."""
    not_needed: int = 0
    """Identities without a row that a run's decision does without, those that it took as failed for good
    (``until.given_up``) among them; no part of ``missing``."""
    until: dict[str, Any] | None = None
    """Of a run that may stop early: rule, seed, tasks used, outcome and limits, made again from the rows."""
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of ``rows``, ``materialized_inputs``, ``generation`` and ``scoring``."""
    problems: list[str] = field(default_factory=list)
    """Sentences; none means that the output is whole."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know although it is not a fault."""

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def certify(paths: RolloutPaths) -> Certificate:
    """Read one output and its inputs from end to end. Raises `OSError` when a file cannot be read."""
    problems: list[str] = []
    manifest, digests = _manifest(paths.manifest, problems)
    if manifest is None:
        return Certificate(expected=None, problems=problems)
    digests["materialized_inputs"] = _check_inputs(paths.materialized_inputs, manifest, problems)
    count = _Count(manifest.num_tasks, manifest.num_repeats)
    found = _read(paths.output, count.take)
    if found is None:
        problems.append(f"{paths.output} is not there: no rollout has a result.")
    else:
        digests["rows"] = found.sha256
        problems += count.sentences(paths.output)
        problems += found.sentences(paths.output)
    until = _until(paths, manifest, problems) if found is not None else None
    missing = manifest.expected - count.present
    not_needed = missing if until is not None and until["outcome"] is not None else 0
    missing -= not_needed
    first = count.first_missing() if missing else []
    if missing:
        named = ", ".join(f"task {task} repeat {repeat}" for task, repeat in first)
        more = f" and {missing - len(first):,} more" if missing > len(first) else ""
        problems.append(
            f"{missing:,} of {counted(manifest.expected, 'rollout has', 'rollouts have')} no "
            f"result: {named}{more}."
        )
    return Certificate(
        expected=manifest.expected,
        present=count.present,
        missing=missing,
        first_missing=first,
        damaged=count.damaged.total,
        duplicates=count.duplicates.total,
        strays=count.strays.total,
        torn_bytes=found.torn if found else 0,
        unsummed=count.unsummed,
        ends=count.sorted_ends(),
        not_graded=count.not_graded,
        not_needed=not_needed,
        until=until,
        digests=digests,
        problems=problems,
        notes=_notes(manifest, count),
    )


def _manifest(path: Path, problems: list[str]) -> tuple[OutputManifest | None, dict[str, str]]:
    """The manifest, checked against its own digests."""
    try:
        manifest = load_manifest(path)
    except DataError as error:
        problems.append(str(error))
        return None, {}
    if manifest is None:
        problems.append(f"{path} is not there, so what is expected is not known.")
        return None, {}
    if not 0 <= manifest.expected <= MOST_ROLLOUTS or min(manifest.num_tasks, manifest.num_repeats) < 0:
        problems.append(
            f"{path}: {counted(manifest.num_tasks, 'task')} x "
            f"{counted(manifest.num_repeats, 'repeat')} cannot be."
        )
        return None, {}
    found = json.loads(read_document(path))
    own = manifest.identity
    digests = {"generation": own.generation_digest, "scoring": own.scoring_digest}
    for name, real in digests.items():
        said = found.get(f"{name}_digest")
        if said != real:
            problems.append(f"{path}: its {name}_digest is {said}, but what it describes has {real}.")
    if found.get("expected") != manifest.expected:
        said = found.get("expected")
        problems.append(f"{path}: it expects {said} rollouts, but plans {manifest.expected}.")
    return manifest, digests


def _until(paths: RolloutPaths, manifest: OutputManifest, problems: list[str]) -> dict[str, Any] | None:
    """What the rows decide by the plan beside them, which must be what was decided; ``None`` without one."""
    if not paths.until.exists():
        return None
    from nemo_gym.rollouts.scores.columns import read_columns
    from nemo_gym.rollouts.scores.until_scores import until_scores

    columns = read_columns(paths, num_tasks=manifest.num_tasks, num_repeats=manifest.num_repeats)
    try:
        found = until_scores(paths, columns)
    except DataError as error:
        problems.append(str(error))
        return None
    if found is None:
        return None
    said, real = found.plan.decision, found.finding
    if said is not None and (said.outcome, said.tasks_used) != (real.outcome, real.tasks_used):
        problems.append(
            f"{paths.until}: it says {said.outcome} after {counted(said.tasks_used, 'task')}, the rows say "
            f"{real.outcome or 'nothing'} after {real.tasks_used:,}."
        )
    return found.to_json()


def _check_inputs(path: Path, manifest: OutputManifest, problems: list[str]) -> str:
    """Compare the materialized inputs with what the manifest says; their digest, empty without a file."""
    lines = _Lines()
    found = _read(path, lines.take)
    if found is None:
        problems.append(f"{path} is not there; the manifest describes it.")
        return ""
    for name, real in {"sha256": found.sha256, "size": found.size, "rows": lines.count}.items():
        said = manifest.materialized.get(name)
        if said != real:
            problems.append(f"{path}: its {name} is {real}, the manifest says {said}.")
    if lines.count != manifest.expected:
        problems.append(
            f"{path}: {counted(lines.count, 'row')}, but "
            f"{counted(manifest.expected, 'rollout is', 'rollouts are')} planned."
        )
    return found.sha256


def _notes(manifest: OutputManifest, count: _Count) -> list[str]:
    notes = []
    for resume in manifest.unsafe_resumes:
        changed = "; ".join(str(line) for line in resume.get("differences", [])) or "unknown"
        notes.append(
            f"resumed with +allow_unsafe_resume=true at {resume.get('at')}, when {resume.get('recorded')} "
            f"rows were there, although something differed: {changed}"
        )
    if count.reframed.total:
        notes.append(
            f"{counted(count.reframed.total, 'line holds', 'lines hold')} rows in another framing "
            "(line ends of "
            "another system, a byte-order mark, padding, or rows joined); the rows are whole, and `--resume` "
            "writes them again"
        )
    if count.unsummed:
        rows = counted(count.unsummed, "row carries", "rows carry")
        notes.append(f"{rows} no checksum: whole JSON, and nothing more is known")
    if count.ends:
        ends = ", ".join(f"{end} {number:,}" for end, number in count.sorted_ends().items())
        notes.append(
            f"{counted(count.ends.total(), 'answer')} did not end well ({ends}); "
            f"{_not_graded(count.not_graded)}"
        )
    return notes


def _not_graded(number: int) -> str:
    if not number:
        return "all of them were graded"
    return f"{counted(number, 'of them was', 'of them were')} not graded: reward 0"


@dataclass(slots=True)
class _Found:
    """What one pass over a file found."""

    sha256: str
    size: int
    torn: int
    changed: bool

    def sentences(self, path: Path) -> Iterator[str]:
        if self.torn:
            yield f"{path}: {counted(self.torn, 'byte')} behind its last newline: a torn row."
        if self.changed:
            yield f"{path}: somebody wrote to it while it was read; verify again when nobody does."


def _read(path: Path, take: Any) -> _Found | None:
    """Show every line to ``take`` (`None` for one that is too long to be held); ``None`` without a file."""
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return None
    summed, size, unfinished, length = hashlib.sha256(), 0, [], 0
    with file:
        before = os.fstat(file.fileno())
        while block := file.read(_BLOCK):
            summed.update(block)
            size += len(block)
            first, *rest = block.split(b"\n")
            length += len(first)
            if length <= LONGEST_ROW:
                unfinished.append(first)
            if not rest:
                continue
            take(b"".join(unfinished) if length <= LONGEST_ROW else None)
            for line in rest[:-1]:
                take(line)
            unfinished, length = [rest[-1]], len(rest[-1])
        after = os.fstat(file.fileno())
    if length <= LONGEST_ROW and is_whole(tail := b"".join(unfinished)):  # it merely lacks its line feed
        take(tail)
        length = 0
    return _Found(summed.hexdigest(), size, length, _changed(path, before, after))


def _changed(path: Path, before: os.stat_result, after: os.stat_result) -> bool:
    """Whether the file grew, or another one took its name, while it was read."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return True
    marks = {(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in (before, after, named)}
    return len(marks) > 1


class _Lines:
    """Counts lines."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, _line: bytes | None) -> None:
        self.count += 1


@dataclass(slots=True)
class _Some:
    """A number of lines, of which the first few are named."""

    total: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.total += 1
        if len(self.first) < _NAMED:
            self.first.append(line)

    def sentences(self, path: Path, what: str) -> Iterator[str]:
        if self.total:
            more = f" and {self.total - len(self.first):,} more" if self.total > len(self.first) else ""
            shown = ", ".join(map(str, self.first))
            yield f"{path}: {what} in line{'s' if self.total > 1 else ''} {shown}{more}."


class _Count:
    """Counts identities: one byte a planned rollout."""

    def __init__(self, num_tasks: int, num_repeats: int) -> None:
        self.num_tasks = num_tasks
        self.num_repeats = num_repeats
        self.present = self.unsummed = self.not_graded = self._line = 0
        self.ends: Counter[str] = Counter()
        self.damaged, self.duplicates, self.strays, self.reframed = _Some(), _Some(), _Some(), _Some()
        self._done = bytearray(num_tasks * num_repeats)

    def take(self, line: bytes | None) -> None:
        self._line += 1
        whole, rest = ([], b"?") if line is None else whole_rows(line)
        if rest:
            self.damaged.add(self._line)
        elif [row for row, _ in whole] != [line]:
            self.reframed.add(self._line)
        for row, identity in whole:
            self._take_row(row, *identity)

    def _take_row(self, row: bytes, task: int, repeat: int) -> None:
        if _SUM not in row[-len(_SUM) - 16 :]:
            self.unsummed += 1
        if task >= self.num_tasks or repeat >= self.num_repeats:
            self.strays.add(self._line)
        elif self._done[at := task * self.num_repeats + repeat]:
            self.duplicates.add(self._line)
        else:
            self._done[at] = 1
            self.present += 1
            if (found_end := _END(row)) is not None:
                self.ends[found_end[1].decode()] += 1
                self.not_graded += _NOT_GRADED in row

    def sorted_ends(self) -> dict[str, int]:
        """How often each end was met, the most frequent first."""
        return dict(sorted(self.ends.items(), key=lambda end: (-end[1], end[0])))

    def first_missing(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        at = self._done.find(0)
        while at >= 0 and len(found) < _NAMED:
            found.append(divmod(at, self.num_repeats))
            at = self._done.find(0, at + 1)
        return found

    def sentences(self, path: Path) -> Iterator[str]:
        yield from self.damaged.sentences(path, f"{self.damaged.total:,} damaged")
        yield from self.duplicates.sentences(
            path, f"{self.duplicates.total:,} of rollouts that have a result already"
        )
        yield from self.strays.sentences(path, f"{self.strays.total:,} of rollouts that nobody planned")
