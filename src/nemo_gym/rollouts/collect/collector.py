"""The collector: N workers that pull planned rollouts from one iterator, and a tick about twice a second.

There is no task object a rollout and no queue: memory does not grow with the number of rollouts. One failing
rollout never ends a run. An answer is stored before it is graded, or together with its grade where the
verifier needs no time for one (`grades_at_once`); if grading it fails, it is graded again and not asked for
again. After the main pass come retry passes over what failed and may be tried again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol

from nemo_gym.rollouts.collect.drain import POLL_SECONDS, SERVER_STOPS, Drain, StopReason
from nemo_gym.rollouts.collect.progress import Snapshot
from nemo_gym.rollouts.collect.task_turns import TaskTurns, TurnStore
from nemo_gym.rollouts.judges.models import counting_judges
from nemo_gym.rollouts.output.disk_wait import DiskWait
from nemo_gym.rollouts.output.failures import RolloutFailure, checked_reward, describe, no_json
from nemo_gym.rollouts.output.result_rows import NOT_GRADED_FIELD, Answer
from nemo_gym.rollouts.policy.errors import REJECTED
from nemo_gym.rollouts.policy.reasoning import MORE_TOKENS
from nemo_gym.rollouts.policy.refusals import Refusals
from nemo_gym.types import Agent, Episode, Policy, Row, Task, Verifier, is_cut_in_thought
from nemo_gym.verifiers.registry import grades_at_once
from nemo_runs.counts import counted
from nemo_runs.errors import DiskFullError

STORE_TICK_SECONDS = 1.0
BREAKER_AT_LEAST = 16
"""The breaker never opens before this many failures in a row, however low the concurrency."""
_Work = Task | tuple[Task, Answer, Episode]
"""What to ask, or what was answered and waits for its grade."""


class RolloutStore(TurnStore, Protocol):
    """What the collector needs of `nemo_gym.rollouts.output.store.OutputStore`."""

    def pending(self) -> Iterator[Task]:
        """What is to be asked: it has no answer and has not used up its attempts. In order."""
        ...

    def retryable(self) -> Iterator[Task]:
        """What of that failed before."""
        ...

    def answered(self) -> Iterator[tuple[int, int, Row]]:
        """Stored answers that wait for their grade: task index, rollout index, fields."""
        ...

    def answer(self, task: Task, fields: Mapping[str, Any]) -> None:
        """Store an answer before it is graded. Raises ``TypeError`` as `record` does."""
        ...

    def record(self, task: Task, fields: Mapping[str, Any]) -> None:
        """Append one result row. Raises ``TypeError`` before anything is written if it is not JSON."""
        ...

    def fail(
        self,
        task: Task,
        *,
        failure_class: str,
        failure_type: str,
        message: str,
        http_status: int | None = None,
        response_body: str | None = None,
        terminal: bool = False,
        counted: bool = True,
        ended_at: float | None = None,
        latency_ms: float | None = None,
    ) -> None:
        """Append one failure row; an uncounted one uses up no attempt."""
        ...

    def tick(self) -> None:
        """Sync, show a sign of life, raise if the output now belongs to somebody else."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much at once and for how long; times in seconds."""

    concurrency: int
    drain_margin: float = 10.0
    """What rollouts in flight get once a stop was asked for."""
    walltime_margin: float | None = None
    """The same where the stop comes ahead of the job's time limit; ``None``: no other."""
    dispatch_budget: float | None = None
    """From the start of collecting; nothing is started in its last ``drain_margin``."""


@dataclass(slots=True)
class RunTally:
    """What this run did so far."""

    new: int = 0
    answered: int = 0
    """Answers of the model, graded or not."""
    failed: int = 0
    endpoint_failures: int = 0
    rejections: int = 0
    """Failures because the endpoint refused the credentials."""
    rejection: str = ""
    """What it said then."""
    refusals: Refusals = field(default_factory=Refusals)
    """Client errors, as long as no request has been answered."""
    judge_failures: int = 0
    """Gradings that failed since a judge model gave no answer."""
    reward_sum: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


class Collector:
    """Collects rollouts into a store until none is left, or until it is asked to stop."""

    def __init__(
        self,
        store: RolloutStore,
        *,
        agent: Agent,
        verifier: Verifier,
        policy: Policy,
        drain: Drain,
        bounds: Bounds,
        own_service: bool = False,
        disk_wait: DiskWait | None = None,
        on_tick: Callable[[RunTally], None] = lambda _tally: None,
        allowed: Callable[[], int | None] = lambda: None,
        report: Callable[[str], None] = lambda _message: None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._agent = agent
        self._verifier = verifier
        self._at_once = grades_at_once(verifier)
        self._for_rollout: Callable[[], Policy] = getattr(policy, "for_rollout", lambda: policy)
        self._keeps_turns = bool(getattr(agent, "keeps_turns", False))
        self._drain = drain
        self._bounds = bounds
        self._own_service = own_service
        self._on_tick = on_tick
        self._allowed = allowed
        self._at_most = bounds.concurrency
        self._report = report
        self._disk_wait = disk_wait or DiskWait(environ={}, report=report, monotonic=monotonic)
        self._monotonic = monotonic
        self._now = now
        self._breaker = max(bounds.concurrency, BREAKER_AT_LEAST)
        self._streak = self._refused = self._judge_streak = 0
        self._judge_away = False
        self._started = self._store_ticked = monotonic()
        self._stop_seen: float | None = None
        self._dropped = False
        self._margin = bounds.drain_margin
        self._sigterm_received = False
        self._reported_ends: set[str] = set()
        self._reported: set[bool] = set()
        self.tally = RunTally()

    async def collect(self) -> RunTally:
        """Main pass, then retry passes. Raises what the store raises; rollouts in flight are then dropped."""
        self._started = self._store_ticked = self._monotonic()
        again = await self._pass(chain(self._answered(), self._store.pending()))
        again = again or self._judge_away  # it had the time of all other answers to come back
        while again and self._drain.reason is None:
            again = await self._pass(chain(self._answered(), self._store.retryable()))
        return self.tally

    def _answered(self) -> Iterator[_Work]:
        """Stored answers, ready to be graded; the judge may be back."""
        self._judge_away, self._judge_streak = False, 0
        for task_index, rollout_index, row in self._store.answered():
            answer = Answer.of_row(row)
            yield answer.to_task(task_index, rollout_index), answer, answer.to_episode()

    async def _pass(self, tasks: Iterator[_Work]) -> bool:
        """Do all of ``tasks``; whether trying the failed ones again makes sense.

        It does not after a pass in which the endpoint alone failed and nothing succeeded: waiting helps, and
        that is the caller's to decide. Nor where every request was refused with the same client error.
        """
        new, failed, of_endpoint = self.tally.new, self.tally.failed, self.tally.endpoint_failures
        refused = self._refused
        self._tick()
        if self._drain.reason is None:
            await self._run_workers(tasks)
        failures = self.tally.failed - failed
        if failures and not self.tally.answered and self._refused - refused == failures:
            self._stop_refused(self.tally.refusals.conclude())
        no_progress = self.tally.new == new and self.tally.endpoint_failures - of_endpoint == failures
        return failures > 0 and not no_progress

    async def _run_workers(self, tasks: Iterator[_Work]) -> None:
        workers: list[asyncio.Task[None]] = []
        everyone = self._more(workers, tasks)
        try:
            while not everyone.done() and not self._overdue():
                await asyncio.wait({everyone}, timeout=POLL_SECONDS)
                self._tick()
                if len(workers) < self._at_most and not everyone.done():
                    everyone = asyncio.gather(everyone, self._more(workers, tasks))
            if everyone.done():
                everyone.result()  # a worker only raises what ends the run
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, everyone, return_exceptions=True)

    def _more(self, workers: list[asyncio.Task[None]], tasks: Iterator[_Work]) -> asyncio.Future[Any]:
        """Start as many workers as there may be now, beside those that there are; all of the new ones."""
        new = [asyncio.create_task(self._work(tasks)) for _ in range(self._at_most - len(workers))]
        workers += new
        return asyncio.gather(*new)

    async def _work(self, tasks: Iterator[_Work]) -> None:
        for task in tasks:
            if isinstance(task, Task):
                await self._roll(task)
            else:
                await self._grade(*task)
            if self._drain.reason is not None:
                return

    async def _roll(self, task: Task) -> None:
        """Have one task answered, store the answer and have it graded."""
        started = time.perf_counter()
        try:
            if self._keeps_turns:
                task = replace(task, turns=TaskTurns(self._store, self._disk_wait, task))
            episode = await self._agent.run(task, self._for_rollout())
            latency = 1000 * (time.perf_counter() - started)
            answer = Answer.of(task, episode, latency_ms=latency, ended_at=self._now())
        except Exception as error:  # noqa: BLE001 - the edge of one rollout: no plug-in's error ends the run
            failure = describe(error, "agent", self._agent)
            await self._failed(task, failure, 1000 * (time.perf_counter() - started))
            return
        if not self._at_once and not await self._kept(task, answer, latency):
            return
        self.tally.answered += 1
        self.tally.input_tokens += answer.perf["prompt_tokens"]
        self.tally.output_tokens += answer.perf["completion_tokens"]
        await self._grade(task, answer, episode, kept=not self._at_once)

    async def _kept(self, task: Task, answer: Answer, latency_ms: float) -> bool:
        """Store an answer that has no grade yet; false where it cannot be written, which is a failure."""
        try:
            await self._disk_wait.stored(lambda: self._store.answer(task, answer.ungraded()))
        except TypeError as error:
            await self._failed(task, no_json("the answer", error), latency_ms)
            return False
        return True

    async def _grade(self, task: Task, answer: Answer, episode: Episode, *, kept: bool = True) -> None:
        """Grade one answer, ``kept`` or not; when that fails the answer is kept, to be graded again."""
        if self._judge_away:
            return  # the answer is stored, and graded once the judge is back
        started = time.perf_counter()
        try:
            with counting_judges() as uses:
                verdict = await self._verifier.verify(task, episode)
            reward = checked_reward(verdict.reward)
            fields = answer.graded(verdict, reward, {name: use.to_json() for name, use in uses.items()})
        except Exception as error:  # noqa: BLE001 - as above
            failure = describe(error, "verifier", self._verifier)
            spent = 1000 * (time.perf_counter() - started)
            if kept or await self._kept(task, answer, spent):
                await self._failed(task, failure, spent)
            return
        try:
            await self._disk_wait.stored(lambda: self._store.record(task, fields))
        except TypeError as error:
            spent = 1000 * (time.perf_counter() - started)
            if kept or await self._kept(task, answer, spent):
                await self._failed(task, no_json("the grade", error), spent)
            return
        self._streak = self._judge_streak = 0
        self._report_not_graded(fields.get(NOT_GRADED_FIELD))
        self._report_cut_in_thought(answer)
        self.tally.new += 1
        self.tally.reward_sum += reward or 0.0

    def _report_not_graded(self, end: str | None) -> None:
        """Say once of each end that such answers are not graded."""
        if end is not None and end not in self._reported_ends:
            self._reported_ends.add(end)
            self._report(
                f"an answer did not end well ({end}): it is kept with reward 0, as others like it will be; "
                f"benchmark.graded_ends=[{end}] has them graded."
            )

    def _report_cut_in_thought(self, answer: Answer) -> None:
        """Say once that an answer ended at the token limit while the model was thinking."""
        if "thought" not in self._reported_ends and is_cut_in_thought(answer.response):
            self._reported_ends.add("thought")
            self._report(
                f"an answer was cut within a thought, before anything was answered: {MORE_TOKENS}. "
                "Others are counted."
            )

    async def _failed(self, task: Task, failure: RolloutFailure, latency_ms: float) -> None:
        stopped = self._drain.reason not in {None, *SERVER_STOPS}
        ours = stopped or (self._own_service and failure.unreachable)
        ours = ours or failure.of_judge
        ended_at = self._now()
        await self._disk_wait.stored(
            lambda: self._store.fail(
                task,
                failure_class=failure.failure_class,
                failure_type=failure.failure_type,
                message=failure.message,
                http_status=failure.http_status,
                response_body=failure.response_body,
                terminal=failure.terminal,
                counted=not ours,
                ended_at=ended_at,
                latency_ms=latency_ms,
            )
        )
        self.tally.failed += 1
        self._report_first(failure)
        self.tally.endpoint_failures += failure.of_endpoint or failure.of_judge
        if failure.http_status in REJECTED:
            self.tally.rejections += 1
            self.tally.rejection = failure.message
        self._watch_refusals(task, failure)
        if failure.of_judge:
            self._watch_judge()
            return
        self._streak = self._streak + 1 if failure.of_endpoint else 0
        if self._streak >= self._breaker and self._drain.reason is None:
            self._drain.ask(StopReason.ENDPOINT, failure.failure_type)
            self._report(
                f"{counted(self._streak, 'rollout')} in a row failed at the endpoint: no further "
                "ones are started."
            )

    def _watch_judge(self) -> None:
        """Stop grading, and go on asking, when the judge only fails: answers are stored first."""
        self.tally.judge_failures += 1
        self._judge_streak += 1
        if self._judge_streak >= self._breaker and not self._judge_away:
            self._judge_away = True
            self._report(
                f"{counted(self._judge_streak, 'grading')} in a row failed at the judge: answers are stored "
                "without a grade from here on."
            )

    def _watch_refusals(self, task: Task, failure: RolloutFailure) -> None:
        """Stop when several rows get the same client error before a single request was answered."""
        if failure.refusal is None or self.tally.answered:
            return
        self._refused += 1
        self._stop_refused(self.tally.refusals.note(task.task_index, failure.refusal))

    def _stop_refused(self, verdict: str | None) -> None:
        if verdict is not None and self._drain.reason is None:
            self._drain.ask(StopReason.REFUSED, "the same client error")
            self._report(verdict)

    def _report_first(self, failure: RolloutFailure) -> None:
        """Report the first failure of each stage; the others are counted."""
        if failure.grading in self._reported:
            return
        self._reported.add(failure.grading)
        message = f"({failure.failure_type}): {failure.message.rstrip('.')}"
        if failure.grading:
            self._report(f"grading an answer failed {message}. The answer is kept. Others are counted.")
        else:
            self._report(f"a rollout failed {message}. Others are counted.")

    def _tick(self) -> None:
        now = self._monotonic()
        budget = self._bounds.dispatch_budget
        if budget is not None and now - self._started >= budget - self._bounds.drain_margin:
            self._drain.ask(StopReason.BUDGET)
        self._drain.poll()
        self._see_stop(now)
        if now - self._store_ticked >= STORE_TICK_SECONDS:
            self._store_ticked = now
            self._at_most = max(self._at_most, self._allowed() or 0)
            self._breaker = max(self._breaker, self._at_most)
            try:
                self._store.tick()
            except (DiskFullError, OSError) as error:
                self._disk_wait.missing(error)
        self._on_tick(self.tally)

    def _see_stop(self, now: float) -> None:
        """Note when a stop was first seen; the breaker sets no limit, for each request is bounded.

        SIGTERM shortens the time that a stop ahead of the time limit had given.
        """
        reason, sigterm_received = self._drain.reason, self._drain.sigterm_received
        if reason is None or reason in SERVER_STOPS:
            return
        if self._stop_seen is not None and (self._sigterm_received or not sigterm_received):
            return
        self._stop_seen, self._sigterm_received, self._margin = (
            now,
            sigterm_received,
            self._bounds.drain_margin,
        )
        if self._bounds.walltime_margin is not None and self._drain.ahead_of_limit():
            self._margin = self._bounds.walltime_margin
        self._report(_stopping(reason, self._drain.asked_by, self._margin))

    def _overdue(self) -> bool:
        """Whether rollouts in flight have had their time after a stop."""
        if self._drain.at_once and not self._dropped:
            self._dropped = True
            self._report(
                "stopping at once: rollouts in flight are dropped; everything recorded is kept, and --resume "
                "goes on from there."
            )
        if self._drain.at_once or self._stop_seen is None:
            return self._drain.at_once
        return self._monotonic() - self._stop_seen >= self._margin

    def snapshot(self, expected: int, recorded_before: int, reward_before: float = 0.0) -> Snapshot:
        """The tally as progress shows it."""
        tally = self.tally
        state = "running" if self._drain.reason is None else "draining"
        done = recorded_before + tally.new
        return Snapshot(expected, done, tally.new, tally.failed, tally.reward_sum, state, reward_before)


def _stopping(reason: StopReason, asked_by: str, margin: float) -> str:
    """What a stop means for the rollouts in flight, in one sentence."""
    who = asked_by if reason is StopReason.SIGNAL and asked_by else str(reason)
    sentence = f"stopping ({who}): no rollout is started any more, those in flight get {margin:g} s."
    if reason is StopReason.INTERRUPT:
        sentence += " A second Ctrl-C drops them and keeps what is recorded."
    return sentence
