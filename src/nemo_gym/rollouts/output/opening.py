"""Opening an output: what is there, whether it belongs to what is asked, and making it sound.

The order matters. The claim comes first, so that nobody else works on the files. What was recorded is
compared with what is asked before anything is changed. New files appear in the order inputs, manifest,
results: a crash between two of them leaves either nothing recorded (a fresh start) or something that can be
resumed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import nemo_gym
from nemo_gym.errors import DataError, ResumeRefusedError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import framing, index_reader, inputs, lock
from nemo_gym.rollouts.output.attempt_index import AttemptIndex
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest
from nemo_gym.rollouts.run_config import identity
from nemo_runs.clock import SecondsClock, utc_text
from nemo_runs.counts import counted
from nemo_runs.durable import files


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """What the caller wants to collect."""

    identity: identity.Identity
    rows: Callable[[], Iterator[bytes]]
    num_tasks: int
    num_repeats: int
    resume: bool
    allow_unsafe: bool
    link: Mapping[str, Any]
    first_sha256: str | None = None
    """Digest of as many first rows of the data as an earlier run planned."""
    unpublished: str | None = None
    """Why questions and answers must not be published."""

    @property
    def expected(self) -> int:
        """How many rollouts are planned."""
        return self.num_tasks * self.num_repeats


@dataclass(slots=True)
class OutputOpening:
    """The steps of one opening; `run` takes them in order."""

    paths: RolloutPaths
    asked: RequestedOutput
    claim: lock.Ownership
    clock: SecondsClock
    attempt_index: AttemptIndex = field(init=False)
    said: list[str] = field(default_factory=list)
    """Sentences for stderr about what was repaired."""
    known: OutputManifest | None = None
    manifest: OutputManifest = field(init=False)
    _changes: list[str] = field(default_factory=list)
    _beaten_at: float = 0.0

    def run(self) -> None:
        """Make the output ready to be added to, or raise and leave what was recorded as it was."""
        self._refuse_if_lost()
        self.attempt_index = AttemptIndex(self.asked.num_tasks, self.asked.num_repeats)
        if self.claim.proven:
            self._repair_tails()
        recorded = any(map(_has_lines, self._files()))
        if recorded and not self.asked.resume:
            raise ResumeRefusedError(
                f"{self.paths.output}: it holds rollouts already; add --resume (resume_from_cache: true) to "
                "go on with them, or choose another --output."
            )
        self.known = self._load_known(recorded)
        if recorded:
            self._compare()
        self._take(self.paths.output, index_reader.Results, self.attempt_index.forget_results)
        self._take(self.paths.failures, index_reader.Failures, self.attempt_index.forget_failures)
        self._take(self.paths.answers, index_reader.Answers, self.attempt_index.forget_answers)
        self._take(self.paths.turns, index_reader.TurnEntries, _forget_nothing)
        self._write_inputs_and_manifest(recorded)
        self.claim.fence()

    def beat(self) -> None:
        """Keep the claim fresh while a long step runs."""
        now = self.clock.monotonic()
        if now - self._beaten_at >= 1.0:
            self._beaten_at = now
            self.claim.beat()

    def _refuse_if_lost(self) -> None:
        """A process that was stopped for a long time may wake up and find the output taken over."""
        if self.claim.lost():
            raise lock.superseded(self.paths.output)

    def _repair_tails(self) -> None:
        for path in self._files():
            tail = files.repair_tail(path, whole=framing.is_whole)
            if tail:
                self._report_torn(path, tail.size, tail.aside)

    def _files(self) -> tuple[Path, ...]:
        """Those that hold what was recorded."""
        return (self.paths.output, self.paths.failures, self.paths.answers, self.paths.turns)

    def _report_torn(self, path: Path, size: int, aside: Path) -> None:
        self.said.append(
            f"{path}: its last {counted(size, 'byte was', 'bytes were')} not a whole row; set aside "
            f"in {aside.name}, "
            "what is missing is collected again."
        )

    def _load_known(self, recorded: bool) -> OutputManifest | None:
        try:
            return load_manifest(self.paths.manifest)
        except DataError:
            if recorded and not self.asked.allow_unsafe:
                raise
            return None

    def _compare(self) -> None:
        """Refuse rows that belong to something else, unless that is explicitly allowed."""
        self._changes, remedy = _changes(self.known, self.asked)
        if self._changes and not self.asked.allow_unsafe:
            listed = "\n  ".join(self._changes)
            raise ResumeRefusedError(
                f"{self.paths.output}: the recorded rollouts belong to something else than what is asked now:"
                f"\n  {listed}\n{remedy}"
            )

    def _take(self, path: Path, kind: type[index_reader.RowIndexer], forget: Callable[[], None]) -> None:
        """Read one file; copy it again if somebody may still write to it or a line of it is not wanted."""
        label = f"{self.claim.number:06d}"
        keep_old = True
        if self.claim.proven or self._changes:
            indexer = kind(self.attempt_index)
            index_reader.index_file(path, indexer, self.beat)
            tally = indexer.tally
            if self.claim.proven and tally.clean:
                return
            self._refuse_if_nothing_counts(path, tally)
            if tally.only_spare:  # what these answers became is to be on the disk before they go
                _sync(self.paths.output)
                _sync(self.paths.answers)
                keep_old = not self.claim.proven
            forget()
        indexer = kind(self.attempt_index)
        adopted = files.adopt_rows(path, self._beating(indexer.take), label=label, keep_old=keep_old)
        aside = path.with_name(f"{path.name}.damaged-{label}")
        if adopted.torn:
            indexer.tally.forget_last()
        self.said += indexer.tally.sentences(path, aside)
        if adopted.torn:
            self._report_torn(path, adopted.torn, aside)
        if adopted.kept and adopted.superseded and not self.claim.proven:
            self.said.append(
                f"{path}: its last writer cannot be seen from here, so its "
                f"{counted(adopted.kept, 'row was', 'rows were')} copied "
                f"to a new file; the old one is kept as {adopted.superseded.name}."
            )

    def _refuse_if_nothing_counts(self, path: Path, tally: index_reader.FileTally) -> None:
        """A file of results of which nothing could be reused is more likely the wrong one than worthless."""
        if path != self.paths.output or tally.kept:
            return
        if tally.strays:
            raise ResumeRefusedError(
                f"{path}: none of its {counted(tally.lines, 'row')} is of a rollout that is "
                "planned now, so nothing "
                "could be reused; choose another --output."
            )
        if len(tally.damaged) > 1 and not self.asked.allow_unsafe:
            raise ResumeRefusedError(
                f"{path}: none of its {counted(tally.lines, 'line')} can be read as a row, so "
                "nothing could be reused "
                "(was it compressed, or saved in another encoding?); bring it back as it was, choose another "
                "--output, or add +allow_unsafe_resume=true to set it aside and collect everything again."
            )

    def _beating(self, take: index_reader.Take) -> index_reader.Take:
        lines = 0

        def taken(line: bytes) -> tuple[Sequence[bytes], bytes]:
            nonlocal lines
            lines += 1
            if not lines % index_reader.BEAT_EVERY:
                self.beat()
            return take(line)

        return taken

    def _write_inputs_and_manifest(self, recorded: bool) -> None:
        """Keep inputs that are sound and belong to what is asked, else make them again."""
        known = self.known
        same = known is not None and not (self._changes or _changes(known, self.asked)[0])
        path = self.paths.materialized_inputs
        grown = known if known is not None and same and known.expected < self.asked.expected else None
        if known and same and not grown and inputs.inputs_intact(path, known.materialized, self.beat):
            described = known.materialized
        else:
            binding = known if known and same and recorded and not self.asked.allow_unsafe else None
            if recorded and not same and path.exists():
                path.rename(path.with_name(f"{path.name}.superseded-{self.claim.number:06d}"))
            rows = self.asked.rows()
            if binding is not None and grown is not None:
                rows = self._held(rows, grown)
            described = inputs.write_inputs(
                path,
                rows,
                expected=self.asked.expected,
                sha256=binding.materialized.get("sha256") if binding and not grown else None,
                beat=self.beat,
            )
        self._refuse_if_lost()
        self.manifest = self._next_manifest(described, kept=known if recorded or same else None)
        self.manifest.save(self.paths.manifest)

    def _held(self, rows: Iterator[bytes], grown: OutputManifest) -> Iterator[bytes]:
        """The rows of a larger plan, which must hold those of the smaller one as they were; say so."""
        self.said.append(
            f"{self.paths.output}: {_plan(grown.num_tasks, grown.num_repeats)} were planned, now "
            f"{_plan(self.asked.num_tasks, self.asked.num_repeats)} are; what is recorded is kept."
        )
        return inputs.holding(
            rows,
            num_repeats=self.asked.num_repeats,
            known=(grown.num_tasks, grown.num_repeats),
            sha256=grown.materialized.get("sha256"),
            path=self.paths.materialized_inputs,
        )

    def _next_manifest(self, described: dict[str, Any], kept: OutputManifest | None) -> OutputManifest:
        now = utc_text(self.clock.seconds())
        version = str(self.asked.link.get("gym_version") or nemo_gym.__version__)
        commit = self.asked.link.get("gym_commit")
        process = self.claim.claim.claimant.process
        entry = {"at": now, "claim": self.claim.number, "host": process.host, "pid": process.pid}
        entry |= {"recorded": self.attempt_index.recorded, **self.asked.link}
        wanted = self.asked.identity
        base = kept or OutputManifest(
            run_id=uuid.uuid4().hex,
            created_at=now,
            gym_version=version,
            gym_commit=commit if commit is None else str(commit),
            generation=wanted.generation,
            scoring=wanted.scoring,
            model=wanted.model,
            num_tasks=self.asked.num_tasks,
            num_repeats=self.asked.num_repeats,
            materialized=described,
        )
        unsafe = {"at": now, "differences": self._changes, "recorded": self.attempt_index.recorded}
        return replace(
            base,
            generation=wanted.generation
            if self._changes
            else _with_learnt(wanted.generation, base.generation),
            scoring=wanted.scoring,
            model=wanted.model or base.model,
            num_tasks=self.asked.num_tasks,
            num_repeats=self.asked.num_repeats,
            materialized=described,
            unpublished=self.asked.unpublished or base.unpublished,
            unsafe_resumes=[*base.unsafe_resumes, *([unsafe] if self._changes else [])],
            links=[*base.links, entry],
        )


def _changes(known: OutputManifest | None, asked: RequestedOutput) -> tuple[list[str], str]:
    """What differs between the recorded rows and what is asked, and what a person can do about it."""
    unsafe = "add +allow_unsafe_resume=true to use the recorded rollouts all the same."
    if known is None:
        missing = ["there is no manifest, so it is not known what they were collected with"]
        return missing, f"Choose another --output, or {unsafe}"
    if _holds(known, asked):
        changed = identity.differences(_but_size(known.generation), _but_size(asked.identity.generation))
    else:
        changed = identity.differences(known.generation, asked.identity.generation)
        for name in ("num_tasks", "num_repeats"):
            before, after = getattr(known, name), getattr(asked, name)
            if before != after and not any(line.startswith(f"{name}:") for line in changed):
                changed.append(f"{name}: {before} → {after}")
    graded = identity.differences(known.scoring, asked.identity.scoring)
    if graded and not changed:
        return graded, "Only the grading changed: `gym eval reverify` grades the recorded answers again."
    return changed + graded, f"Undo the change, choose another --output, or {unsafe}"


def _plan(num_tasks: int, num_repeats: int) -> str:
    return f"{counted(num_tasks, 'task')} with {counted(num_repeats, 'repeat')}"


_SIZE: Final = ("dataset_sha256", "limit", "num_repeats")
"""What of the generation identity says how many tasks and repeats there are."""


def _holds(known: OutputManifest, asked: RequestedOutput) -> bool:
    """Whether what is asked is what was recorded and more of it: further tasks of the same data, repeats."""
    if asked.num_tasks < known.num_tasks or asked.num_repeats < known.num_repeats:
        return False
    data = asked.identity.generation.get("dataset_sha256")
    if asked.num_tasks > known.num_tasks:
        data = asked.first_sha256
    return data is not None and data == known.generation.get("dataset_sha256")


def _but_size(generation: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in generation.items() if key not in _SIZE}


def _with_learnt(wanted: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Keep what an earlier run learnt about the model and the agent where this one does not know it."""
    found = dict(wanted)
    for name in ("model", identity.AGENT_FACTS):
        if known := {**before.get(name, {}), **wanted.get(name, {})}:
            found[name] = known
    return found


def _forget_nothing() -> None:
    """The attempt index holds nothing of turns."""


def _has_lines(path: Path) -> bool:
    try:
        return next(framing.read_rows(path), None) is not None
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    """Make a file durable that another process wrote; a missing one holds nothing."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
