"""Collecting into one open output: what is said before and meanwhile, and what it came to."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace

from nemo_gym.rollouts.collect.collector import Bounds, Collector, RunTally
from nemo_gym.rollouts.collect.console import Console
from nemo_gym.rollouts.collect.drain import Drain
from nemo_gym.rollouts.collect.ends import CollectionEnd, Counts, decide_end
from nemo_gym.rollouts.collect.preflight import Prepared
from nemo_gym.rollouts.collect.progress import ProgressReport, Snapshot
from nemo_gym.rollouts.collect.request_share import RequestShare
from nemo_gym.rollouts.collect.until_run import UntilRun
from nemo_gym.rollouts.output.disk_wait import DiskWait
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.policy.client import HttpPolicy
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_runs.clock import SecondsClock
from nemo_runs.counts import counted


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a run has besides its configuration."""

    drain: Drain
    console: Console
    clock: SecondsClock
    retries: Retries
    disk_wait: DiskWait
    share: RequestShare


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run did, before it is added up."""

    counts: Counts
    tally: RunTally
    resumed: int
    seconds: float
    """From the first request."""

    @property
    def rejected(self) -> str | None:
        """Why further requests would all be refused, for their credentials or as such; else ``None``."""
        tally = self.tally
        if tally.failed and tally.rejections == tally.failed and not tally.new:
            return tally.rejection
        return tally.refusals.verdict if tally.refusals.lasting and not self.counts.recorded else None


async def collect_into(
    store: OutputStore, until: UntilRun | None, prepared: Prepared, policy: HttpPolicy, context: RunContext
) -> RunOutcome:
    """Have asked and graded what the output lacks. Raises `nemo_gym.errors.GymError`."""
    console, clock, config = context.console, context.clock, prepared.config
    resumed, before, started = store.recorded, store.reward_before, clock.monotonic()
    _report_recorded(store, console)
    report = ProgressReport(
        prepared.paths.progress,
        console.show_progress(store.expected),
        now_utc=clock.seconds,
        monotonic=clock.monotonic,
    )
    collector = _collector(store, until, prepared, policy, context, on_tick=lambda _: report.tick(snapshot()))

    def snapshot() -> Snapshot:
        expected = store.recorded if until is not None and until.decided else store.expected
        said = None if until is None else until.sentence
        return replace(collector.snapshot(expected, resumed, before), until=said)

    state = "failed"
    gc.freeze()  # what was imported and loaded so far is not garbage: never look at it again
    try:
        await collector.collect()
        if until is not None:
            await context.disk_wait.stored(until.keep_given_up)
        counts = _counts(store, collector.tally, until)
        state = end_of(counts, config, context.drain).state
    finally:
        gc.unfreeze()
        report.finish(replace(snapshot(), state=state))
        if until is not None:
            until.store.close()
        console.end_progress()
        if retries := context.retries.sentence():
            console.report(retries)
    return RunOutcome(counts, collector.tally, resumed, clock.monotonic() - started)


def end_of(counts: Counts, config: RunConfig, drain: Drain) -> CollectionEnd:
    """How a run with these counts ends."""
    return decide_end(
        counts,
        drain.reason,
        max_attempts=config.max_rollout_attempts,
        asked_by=drain.asked_by,
        require_complete=config.require_complete,
    )


def _report_recorded(store: OutputStore, console: Console) -> None:
    if not store.opened.fresh:
        console.report(
            f"resuming: {store.recorded:,} of "
            f"{counted(store.expected, 'rollout has', 'rollouts have')} a result, "
            f"{counted(store.to_ask, 'is', 'are')} to be run, {store.exhausted:,} failed for good."
        )
    if store.ungraded:
        some = counted(store.ungraded, "answer is", "answers are")
        console.report(f"{some} stored without a grade; that is made up for first, without a request.")


def _collector(
    store: OutputStore,
    until: UntilRun | None,
    prepared: Prepared,
    policy: HttpPolicy,
    context: RunContext,
    *,
    on_tick: Callable[[RunTally], None],
) -> Collector:
    config = prepared.config
    return Collector(
        store if until is None else until.store,
        agent=prepared.agent,
        verifier=prepared.verifier,
        policy=policy,
        drain=context.drain,
        bounds=Bounds(
            config.num_samples_in_parallel,
            config.drain_margin_s,
            config.walltime_margin_s,
            config.dispatch_budget_s,
        ),
        own_service=config.policy_service_name is not None,
        disk_wait=context.disk_wait,
        on_tick=on_tick,
        allowed=context.share,
        report=context.console.report,
        monotonic=context.clock.monotonic,
        now=context.clock.seconds,
    )


def _counts(store: OutputStore, tally: RunTally, until: UntilRun | None) -> Counts:
    return Counts(
        store.expected,
        store.recorded,
        store.new,
        store.exhausted,
        final=store.final,
        ungraded=store.ungradable,
        answered=tally.answered,
        waiting=store.ungraded,
        judge_failures=tally.judge_failures,
        decided=until.sentence if until is not None and until.decided else "",
    )
