"""A link of a chain as a small program in Python: it keeps the facts that the shell keeps, step by step.

`Link.live` yields before each thing that lasts, so that a test can let other things happen there or kill it.
It decides with `tests.chain_decision`, which a test compares with the shell of jobs, and asks a fake cluster
through `nemo_slurm.cluster`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chain_decision import ChainDecision, Spent, decide, look_again

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.evidence import ChainAction, ChainState
from nemo_gym.chain.run_end import Marker, Requester, RunEnd
from nemo_slurm.cluster import JobLook, SlurmJob
from nemo_slurm.errors import NotReachableError, SchedulerRefusedError
from nemo_slurm.observing import has_ended
from nemo_slurm.states import SlurmState
from nemo_slurm.testing import FakeCluster

RUNNING = frozenset({"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"})
TOKEN = "gym-job-x/b/"


@dataclass
class Facts:
    """``links/<job id>.<restart>/``."""

    predecessor: str
    started: float
    rows: int
    decision: ChainDecision | None = None
    saw: SlurmState | None = None
    """What the scheduler said of the job before, when that was asked last."""
    retry: bool = False
    accounted: dict[tuple[str, int], int] = field(default_factory=dict)
    queued: str = ""
    refused: bool = False
    unheard: bool = False
    """A successor could not be taken back, and the job said so."""
    new: int | None = None
    """Rows that its driver says to have added; `None`: it said nothing."""
    marker: Marker | None = None
    ended: bool = False
    successor: str = ""
    """Claimed by the job that goes on after this run."""


@dataclass
class Store:
    """Recorded identities in a file that is replaced, never shared: who holds an old one writes to nobody."""

    rows: list[int] = field(default_factory=list)
    generation: int = 0
    owner: tuple[str, int] | None = None

    def open(self, who: tuple[str, int], *, owner_ended: bool) -> int:
        """Become its writer; answers the generation that is written."""
        if not owner_ended and self.owner != who:
            self.generation += 1
            self.rows = list(self.rows)
        self.owner = who
        return self.generation


@dataclass
class Folder:
    """A benchmark's folder."""

    wanted: int
    budget: Budget
    links: dict[tuple[str, int], Facts] = field(default_factory=dict)
    since: float = 0.0
    """When it was submitted; accounting's records of older jobs are not its."""
    chain: list[str] = field(default_factory=list)
    cancelled: bool = False
    store: Store = field(default_factory=Store)

    def known(self) -> dict[tuple[str, int], int]:
        """Seconds of runs that have been accounted for, each once."""
        found: dict[tuple[str, int], int] = {}
        for facts in self.links.values():
            for key, seconds in facts.accounted.items():
                found.setdefault(key, seconds)
        return found

    def runs_of(self, job: str) -> list[int]:
        """Restart counts under which a job has a folder, the newest first."""
        return sorted((run for number, run in self.links if number == job), reverse=True)


@dataclass
class Driver:
    """What the collector does next, as a schedule says."""

    crashes: bool = False
    hopeless: str | None = None
    exhausted: bool = False


class Link:
    """One run of one job. ``asked`` is what signals told it: nothing, ``drain`` or ``stop``."""

    def __init__(
        self, folder: Folder, fake: FakeCluster, script: str, job: str, restart: int, options: list[str]
    ) -> None:
        self.me = (job, restart)
        self.job = job
        self.asked = ""
        self.who = ""
        self.driver = Driver()
        self.working = False
        self.accepted = 0
        self._folder, self._fake, self._script, self._options = folder, fake, script, options
        self._due = 0.0
        self.steps = self.live(fake.job(job).arguments)

    @property
    def facts(self) -> Facts:
        """Its own folder."""
        return self._folder.links[self.me]

    # -------------------------------------------------------------- the job script

    def live(self, arguments: list[str]) -> Generator[str, None, int]:
        """From the first line to the last; answers the exit status."""
        yield "start"
        before = arguments[0] if arguments else ""
        store = self._folder.store
        self._folder.links[self.me] = Facts(before, self._fake.now(), len(store.rows))
        yield "claimed its folder"
        decision = yield from self._prologue(before)
        if decision.action is not ChainAction.GO_ON:
            yield from self._drop_what_earlier_runs_queued(decision)
            self.facts.ended = True
            return decision.exit_status
        yield "before it works"
        status, marker = (75, None) if self.asked else (yield from self._work())
        yield "worked"
        self.facts.marker = marker or Marker(complete=False, exit_status=status, asked=self._asked())
        yield "has its last word"
        yield from self._epilogue(status)
        yield "before the end marker"
        self.facts.ended = True
        return status

    def _asked(self) -> Requester:
        if not self.asked:
            return Requester.NOBODY
        return Requester.of("drained" if self.asked == "drain" else "stopped", self.who or "signal")

    # -------------------------------------------------------------- before

    def _prologue(self, before: str) -> Generator[str, None, ChainDecision]:
        predecessor, found = yield from self._recall(before)
        if isinstance(predecessor, ChainDecision):
            decision = predecessor
        else:
            self._account(before)
            yield "accounted"
            others = (facts for (job, _), facts in self._folder.links.items() if job != self.job)
            retries = sum(facts.retry for facts in others)
            spent = Spent(
                retries=retries,
                walltime=sum(self._folder.known().values()),
                links_without_progress=self._idle(found),
            )
            decision = decide(predecessor, spent, self._folder.budget)
            counted = any(facts.retry for (job, _), facts in self._folder.links.items() if job == self.job)
            if decision.counts_retry and not counted:
                self.facts.retry = True
                yield "counted a retry"
        self.facts.decision = decision
        yield "decided"
        if decision.action is ChainAction.GO_ON:
            if self.job not in self._folder.chain:
                self._folder.chain.append(self.job)
            yield "is in the chain"
            yield from self._queue()
            self._due = self._fake.now() + 30
        return decision

    def _recall(
        self, before: str
    ) -> Generator[str, None, tuple[RunEnd | ChainDecision | None, tuple[str, int] | None]]:
        """What is known about the run before, and which it is."""
        links = self._folder.links
        for run in self._folder.runs_of(self.job)[1:]:
            earlier = links[self.job, run]
            if earlier.decision is None:
                continue
            if earlier.decision.action is not ChainAction.GO_ON:
                return earlier.decision, None
            if any(links[self.job, run].successor for run in self._folder.runs_of(self.job)):
                return ChainDecision(ChainAction.STOP, ChainState.RUNNING, False, "another goes on"), None
            marker = earlier.marker
            ours = self._folder.cancelled
            return RunEnd(marker=marker, scheduler=None, cancelled_by_us=ours, same_job=True), (
                self.job,
                run,
            )
        ours = self._folder.cancelled
        if not before:
            first = RunEnd(marker=None, scheduler=None, cancelled_by_us=True) if ours else None
            return first, None
        found = next(((before, run) for run in self._folder.runs_of(before)), None)
        if found:
            yield "knows the run before"
            decided = links[found].decision
            if decided and decided.action is not ChainAction.GO_ON:
                reason = f"job {before} had decided: {decided.reason}"
                return dataclasses.replace(decided, counts_retry=False, reason=reason), None
            claim = links[found]
            claim.successor = claim.successor or self.job
            if claim.successor != self.job:
                return ChainDecision(ChainAction.STOP, ChainState.RUNNING, False, "another goes on"), None
        predecessor = RunEnd(
            marker=links[found].marker if found else None, scheduler=None, cancelled_by_us=ours
        )
        looks = 0
        while look_again(predecessor, looks=looks) and not (looks and self.asked):
            if looks:
                self._fake.move(10)
            yield "looks at the job before"
            seen = self._seen(before)
            self.facts.saw = seen.state if seen else None
            predecessor = dataclasses.replace(predecessor, scheduler=self.facts.saw)
            looks += 1
        return predecessor, found

    def _seen(self, job: str) -> JobLook | None:
        known = SlurmJob(job, None, self._folder.since)
        try:
            return self._fake.observe([known], history=True).seen[known]
        except NotReachableError:
            return None

    def _account(self, before: str) -> None:
        """Add the time of ended runs that was not known yet."""
        known = self._folder.known()
        missing = [job for job, run in self._folder.links if (job, run) not in known]
        for job in dict.fromkeys([before, *missing] if before else missing):
            seen = self._seen(job)
            for restart, run in enumerate(seen.runs if seen else ()):
                ended = run.ended_at is not None and run.state.name not in RUNNING
                if ended and (job, restart) not in known and (job != self.job or restart < self.me[1]):
                    self.facts.accounted[job, restart] = run.elapsed

    def _idle(self, run: tuple[str, int] | None) -> int:
        """Runs in a row, back from the one before, that recorded nothing new."""
        idle, rows = 0, self.facts.rows
        while run is not None:
            facts = self._folder.links[run]
            if facts.new if facts.new is not None else rows > facts.rows:
                break
            idle += 1
            rows = facts.rows
            job, restart = run
            older = [number for number in self._folder.runs_of(job) if number < restart]
            if older:
                run = (job, older[0])
            else:
                run = next(((facts.predecessor, n) for n in self._folder.runs_of(facts.predecessor)), None)
        return idle

    # -------------------------------------------------------------- the successor

    def _queue(self) -> Generator[str, None, None]:
        if self._folder.cancelled or self._is_continued():
            return
        if not self.facts.queued:
            for run in self._folder.runs_of(self.job)[1:]:
                earlier = self._folder.links[self.job, run].queued
                if earlier and self._waits(earlier) is not False:
                    self.facts.queued = earlier
                    return
        number = self._submit()
        yield "asked for a successor"
        if number is None:
            self.facts.refused = True
            return
        self.facts.queued, self.facts.refused = number, False
        yield "noted its successor"
        if self._folder.cancelled:
            yield from self._drop(number)

    def _submit(self) -> str | None:
        if found := self._unheard():
            return found
        options = [*self._options, *self._kill_option()]
        try:
            submitted = self._fake.submit(
                self._script,
                [self.job],
                token=self._token(),
                dependency=f"afternotok:{self.job}",
                options=options,
            )
            return self._unheard() if submitted.found else submitted.job.id
        except (SchedulerRefusedError, NotReachableError):
            return self._unheard()

    def _kill_option(self) -> list[str]:
        with self._fake.faults() as faults:
            return [] if faults.refuses_kill_option else ["--kill-on-invalid-dep=yes"]

    def _token(self) -> str:
        return f"{TOKEN}{len(self._folder.chain) + 1}"

    def _unheard(self) -> str | None:
        try:
            rows = self._fake.queue_of(self._token())
        except NotReachableError:
            return None
        waiting = (row.id for row in rows if row.state.name == "PENDING" and row.comment == self._token())
        return next((number for number in waiting if number != self.job), None)

    def _waits(self, number: str) -> bool | None:
        """`None` when nobody can tell."""
        try:
            look = self._fake.observe([SlurmJob(number)])
        except NotReachableError:
            return None
        state = look.seen[SlurmJob(number)].state
        return None if look.controller else state is not None and not has_ended(state)

    def _drop(self, number: str) -> Generator[str, None, None]:
        for _ in range(1 if self.asked == "stop" else 3):
            try:
                self._fake.cancel([SlurmJob(number, token="gym-job-x/b/")])
            except (NotReachableError, SchedulerRefusedError):
                self._fake.move(1)
                yield "could not take its successor back"
                continue
            self.facts.queued = ""
            return
        self.facts.unheard = True

    def _drop_what_earlier_runs_queued(self, decision: ChainDecision) -> Iterator[str]:
        if decision.chain is ChainState.RUNNING:
            return
        for run in self._folder.runs_of(self.job)[1:]:
            if number := self._folder.links[self.job, run].queued:
                yield from self._drop(number)
                return

    def _tick(self) -> Generator[str, None, None]:
        if self._fake.now() < self._due:
            return
        self._due = self._fake.now() + 30
        if self._folder.cancelled:
            self.asked, self.who = "stop", "cancel"
            if self.facts.queued:
                yield from self._drop(self.facts.queued)
            return
        if self._is_continued():
            self.asked, self.who = "stop", "continued"
            return
        yield from self._see_to_successor()

    def _is_continued(self) -> bool:
        """Whether another goes on after this run, whose node was lost for the scheduler."""
        return bool(self.facts.successor) or self._folder.runs_of(self.job)[0] > self.me[1]

    def _see_to_successor(self) -> Generator[str, None, None]:
        if self.facts.queued:
            if self._waits(self.facts.queued) is not False:
                return
            yield "misses its successor"
            self.facts.queued = ""
        yield from self._queue()

    # -------------------------------------------------------------- work, and after it

    def _work(self) -> Generator[str, None, tuple[int, Marker | None]]:
        """Record what is missing, one identity a step."""
        folder, me = self._folder, self.me
        yield "takes the results over"
        if self._is_continued():
            return 1, None
        owner = folder.store.owner
        owner_ended = owner is None or owner == me or folder.links[owner].ended
        generation, mine = folder.store.open(me, owner_ended=owner_ended), 0
        self.working = True
        while missing := [n for n in range(folder.wanted) if n not in folder.store.rows]:
            yield "works"
            yield from self._tick()
            if folder.store.generation != generation:
                return 1, None
            if self.driver.crashes:
                return 1, None
            if self.asked or self.driver.hopeless or self.driver.exhausted:
                self.facts.new = mine
                return self._left()
            if missing[0] in folder.store.rows:
                message = f"{me} and somebody else record at the same time"
                raise AssertionError(message)
            folder.store.rows.append(missing[0])
            mine += 1
            self.accepted += 1
        self.working = False
        self.facts.new = mine
        marker = Marker(complete=True, exit_status=0, asked=self._asked())
        self.facts.marker = marker
        return 0, marker

    def _left(self) -> tuple[int, Marker]:
        status = 76 if self.driver.exhausted else 1 if self.driver.hopeless else 75
        hopeless = self.driver.hopeless
        return status, Marker(complete=False, exit_status=status, asked=self._asked(), hopeless=hopeless)

    def _epilogue(self, status: int) -> Generator[str, None, None]:
        self.working = False
        marker: Any = self.facts.marker
        over = marker.complete or marker.hopeless or status == 76
        if over or self._folder.cancelled or self.who == "cancel":
            if self.facts.queued:
                yield from self._drop(self.facts.queued)
            while not self.facts.unheard and (number := self._unheard()):
                yield from self._drop(number)
        elif not self._is_continued() and (self.asked != "stop" or self.facts.refused):
            yield from self._see_to_successor()
