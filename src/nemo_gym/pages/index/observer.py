"""The one who reads behind the pages: runs every few seconds, rollouts of those that somebody looks at.

A page takes what is known from `EvaluationIndex` and never waits for a disk, a scheduler or another machine.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from zlib import crc32

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.orchestration import executor_kinds
from nemo_gym.orchestration.status.machines import MachinesHere
from nemo_gym.pages.index.background_answers import BackgroundAnswers
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_gym.pages.index.output_index import OutputIndex
from nemo_gym.pages.index.rollout_table import tables_folder
from nemo_gym.pages.index.run_places import PlacedRun, RunPlaces
from nemo_gym.pages.index.run_reading import Fingerprint, fingerprint, read_runs
from nemo_runs.clock import SecondsClock, SystemClock

_LOG = logging.getLogger(__name__)

EVERY: Final = 3.0
"""Seconds between two looks at runs of this machine."""
EVERY_SLURM: Final = 20.0
"""The same while one of them waits for a scheduler, which is asked then."""
SETTLED: Final = 60.0
"""Seconds after which runs that have ended are looked at again."""
LOOKED_AT: Final = 600.0
"""Seconds for which rollouts are read on after somebody asked for them."""
AHEAD: Final = 20
"""Outputs of the newest runs, which are read before anybody asks."""

_OpenOutput = tuple[str, str]
"""Run and benchmark."""


class EvaluationIndex:
    """What is known of evaluations, each answer with its age; for any number of threads."""

    def __init__(
        self,
        folders: Sequence[Path] = (),
        *,
        records: bool = True,
        tables: Path | None = None,
        clock: SecondsClock | None = None,
        at_once: bool = False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """``folders``: run directories and results, or folders with such; ``records``: those of the record
        index too; ``tables``: where tables of rollouts are kept, the user's cache folder unless given;
        ``at_once``: who asks waits until all was read, for pages that are written as files; ``wanted``:
        whether anybody looks, without whom the threads rest.
        """
        self._places = RunPlaces(folders, records=records)
        self._tables = tables or tables_folder()
        self._clock = clock or SystemClock()
        self._machines = MachinesHere()
        self._known: dict[str, tuple[Fingerprint, KnownRun]] = {}
        self._shown: dict[str, KnownRun] = {}
        self._fingerprinted_at = 0.0
        self._outputs: dict[_OpenOutput, OutputIndex] = {}
        self._asked: dict[_OpenOutput, float] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._closed = False
        self._callbacks: list[Callable[[], None]] = []
        self._at_once = at_once
        self._is_wanted = wanted
        self.answers = BackgroundAnswers(self._clock, at_once=at_once)
        """Answers that take long."""
        self.problems: tuple[str, ...] = ()
        """What could not be read at the last look."""
        self.seen_at = 0.0
        """When runs were looked at last: UTC seconds; 0: never."""

    def after_look(self, callback: Callable[[], None]) -> None:
        """Call this after each look at runs, in the thread that looked."""
        self._callbacks.append(callback)

    def now(self) -> float:
        """UTC seconds, for ages."""
        return self._clock.seconds()

    def runs(self) -> list[KnownRun]:
        """All runs, newest first."""
        return list(self._shown.values())

    def run(self, run_id: str) -> KnownRun | None:
        """One run."""
        return self._shown.get(run_id)

    def rollouts(self, run: KnownRun, benchmark: KnownBenchmark) -> OutputIndex | None:
        """The rollouts of a benchmark, read on in the background from now on; ``None``: nothing is here."""
        if benchmark.paths is None:
            return None
        key = run.run_id, benchmark.name
        with self._lock:
            fresh = key not in self._asked
            self._asked[key] = self.now()
            found = self._opened(key, benchmark)
        if fresh:
            self._woken.set()
        try:
            while self._at_once and not found.state().whole:
                found.read_on(self.now())
        except (OSError, sqlite3.Error) as error:
            self._forget(key, _unreadable(benchmark.paths, error))
            return None
        return found

    def version(self, run: KnownRun) -> str:
        """Changes whenever something changes that pages of a run show, ages apart."""
        read = [
            output.state().done
            for each in run.benchmarks
            if (output := self._outputs.get((run.run_id, each.name))) is not None
        ]
        shown = [
            (each.state, each.reason, each.done, each.expected, each.result.score, _links(each))
            for each in run.benchmarks
        ]
        return f"{crc32(repr((shown, read)).encode()):08x}-{self.answers.version}"

    def observe(self) -> None:
        """Look at all runs once, in the caller's thread."""
        problems: list[str] = []
        places = self._places.find(report=problems.append)
        now = self.now()
        again = now - self._fingerprinted_at >= SETTLED
        stale, prints = [], {}
        for place in places:
            known = self._known.get(place.run_id)
            if known is None or known[1].live or again or _begun_since(place, known[1]):
                prints[place.run_id] = fingerprint(place)
                if known is None or known[1].live or known[0] != prints[place.run_id]:
                    stale.append(place)
        if again:
            self._fingerprinted_at = now
        for run in read_runs(stale, self._machines, clock=self._clock, report=problems.append):
            self._known[run.run_id] = prints[run.run_id], run
        wanted = {place.run_id for place in places}
        self._known = {name: known for name, known in self._known.items() if name in wanted}
        shown = {place.run_id: self._known[place.run_id][1] for place in places}
        self._shown = {
            name: run if run.live else replace(run, seen_at=max(run.seen_at, self._fingerprinted_at))
            for name, run in shown.items()
        }
        self.problems = tuple(dict.fromkeys(problems))
        self.seen_at = now
        for callback in self._callbacks:
            callback()

    def read_rollouts(self) -> bool:
        """Read on the rollouts that are asked for, each a slice; whether all was read."""
        whole = True
        for key in self._wanted():
            run = self._shown.get(key[0])
            benchmark = run.benchmark(key[1]) if run is not None else None
            if benchmark is None or benchmark.paths is None:
                continue
            with self._lock:
                output = self._opened(key, benchmark)
            try:
                if fields := tuple(dict.fromkeys(group.by for group in benchmark.result.groups)):
                    output.group_by(fields)
                whole = output.read_on(self.now()) and whole
            except (OSError, sqlite3.Error) as error:
                self._forget(key, _unreadable(benchmark.paths, error))
        return whole

    def start(self) -> None:
        """Begin to look, in threads that end with the process or `close`."""
        threading.Thread(target=self._look_at_runs, name="pages-runs", daemon=True).start()
        threading.Thread(target=self._look_at_rollouts, name="pages-rollouts", daemon=True).start()
        self.answers.start()

    def close(self) -> None:
        """End the looking."""
        self._closed = True
        self._woken.set()
        self.answers.close()
        self._machines.__exit__()

    def _look_at_runs(self) -> None:
        pause = threading.Event()
        while not self._closed:
            if not self._is_wanted():
                pause.wait(EVERY)
                continue
            try:
                self.observe()
            except Exception as error:  # noqa: BLE001 - the next look may see what this one could not
                self.problems = (f"the last look at runs failed: {error}",)
                _LOG.exception("runs could not be looked at")
                for callback in self._callbacks:
                    callback()
            queued = any(run.live and _on_slurm(run) for run in self._shown.values())
            pause.wait(EVERY_SLURM if queued else EVERY)

    def _look_at_rollouts(self) -> None:
        while not self._closed:
            if not self._is_wanted():
                self._woken.wait(EVERY)
                continue
            try:
                whole = self.read_rollouts()
            except Exception as error:  # noqa: BLE001 - the same
                whole = True
                self.problems = (*self.problems, f"rollouts could not be read: {error}")
                _LOG.exception("rollouts could not be read")
            self._woken.wait(EVERY if whole else 0.0)
            self._woken.clear()

    def _wanted(self) -> list[_OpenOutput]:
        """Outputs to read on: those that were asked for, latest first, then those of the newest runs."""
        now = self.now()
        with self._lock:
            asked = sorted(self._asked.items(), key=lambda item: -item[1])
        found = [key for key, at in asked if now - at < LOOKED_AT]
        newest = (
            (run.run_id, benchmark.name)
            for run in self.runs()
            for benchmark in run.benchmarks
            if benchmark.paths is not None
        )
        ahead = [key for key, _ in zip(newest, range(AHEAD), strict=False)]
        return list(dict.fromkeys([*found, *ahead]))

    def _opened(self, key: _OpenOutput, benchmark: KnownBenchmark) -> OutputIndex:
        found = self._outputs.get(key)
        if found is None or found.paths != benchmark.paths:
            assert benchmark.paths is not None
            found = self._outputs[key] = OutputIndex(benchmark.paths, self._tables)
        return found

    def _forget(self, key: _OpenOutput, problem: str) -> None:
        with self._lock:
            self._outputs.pop(key, None)
        self.problems = tuple(dict.fromkeys([*self.problems, problem]))


def _begun_since(place: PlacedRun, run: KnownRun) -> bool:
    """Whether something is recorded of a benchmark that had nothing when its run was read."""
    known = {each.name for each in run.benchmarks if each.paths is not None}
    return place.outputs.keys() != known


def _links(benchmark: KnownBenchmark) -> tuple[object, ...]:
    links = benchmark.evidence.links if benchmark.evidence is not None else ()
    return tuple((link.name, link.started, link.ended, link.queued) for link in links)


def _on_slurm(run: KnownRun) -> bool:
    return (
        run.record is not None and run.record.hostname is None and run.record.executor == executor_kinds.SLURM
    )


def _unreadable(paths: RolloutPaths, error: Exception) -> str:
    return f"{paths.output}: its rollouts cannot be read ({error})."
