"""One `gym eval run`, wired together: check, reach the model, open the output, collect, add up."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from nemo_gym.rollouts.collect import event_loop, preflight
from nemo_gym.rollouts.collect.collector import Bounds, Collector, RunTally
from nemo_gym.rollouts.collect.console import Console
from nemo_gym.rollouts.collect.drain import SERVER_STOPS, Drain
from nemo_gym.rollouts.collect.ends import CollectionEnd, Counts, decide_end, stopped_before_start
from nemo_gym.rollouts.collect.model_check import found_model
from nemo_gym.rollouts.collect.preflight import Prepared
from nemo_gym.rollouts.collect.progress import ProgressReport, Snapshot
from nemo_gym.rollouts.collect.until_run import UntilRun, is_decided
from nemo_gym.rollouts.judges.configured import prices_of
from nemo_gym.rollouts.judges.models import opened_judges
from nemo_gym.rollouts.output.disk_wait import DiskWait
from nemo_gym.rollouts.output.index_reader import nothing_to_ask
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.policy.backoff import RequestLimits
from nemo_gym.rollouts.policy.client import HttpPolicy, PolicyError, open_session
from nemo_gym.rollouts.policy.endpoint import EndpointError, ModelIdentity
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.rollouts.policy.rate_limit import RateLimit
from nemo_gym.rollouts.run_config.identity import identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.verifiers.registry import graded_with
from nemo_runs.clock import SecondsClock
from nemo_runs.counts import counted

if TYPE_CHECKING:
    from nemo_gym.command_benchmark.results import CommandResults
    from nemo_gym.rollouts.scores.summary import Summary

QUICK_ROLLOUTS = 50_000
"""Results that are added up in a second or two."""

_PROBED_ROWS = 100
_NOT_OFFERED = frozenset({200, 400, 404, 405, 415, 422, 501})
"""Statuses with which a server says that it has no such route or takes no such request, or answers it with
something else."""
_CANNOT_SCORE = (
    "policy_base_url: the benchmark asks for likelihoods, and this server gives no log-probability for each "
    "token of a prompt, as vLLM and `gym serve --likelihoods` do and llama.cpp's server does not"
)

_LINK_VARIABLES = {"job_id": "NEMO_GYM_JOB_ID", "restart": "NEMO_GYM_RESTART", "chain": "NEMO_GYM_CHAIN"}


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


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended; ``summary`` is missing where nothing was added up."""

    end: CollectionEnd
    summary: Summary | None
    output: str
    collected: RunOutcome | None = None
    """What was collected; ``None`` when the run was stopped before its first request."""

    def to_json(self) -> dict[str, Any]:
        """The one document of ``--json``: the summary, and how the run ended."""
        end = {"status": self.end.status, "state": self.end.state, "sentence": self.end.sentence}
        return {**(self.summary.to_json() if self.summary else {}), "end": end, "output": self.output}


class CollectorRun:
    """One run of one benchmark; `execute` is called once."""

    def __init__(
        self,
        config: RunConfig,
        *,
        drain: Drain,
        console: Console,
        clock: SecondsClock,
        environ: Mapping[str, str] = os.environ,
        function: Callable[..., Any] | None = None,
    ) -> None:
        """``function`` grades, where the verifier of the benchmark describes one."""
        self._function = function
        self._known_model: ModelIdentity | None = None
        self._config = config
        self._drain = drain
        self._console = console
        self._clock = clock
        self._environ = environ
        self._retries = Retries(console.report)
        self._disk_wait = DiskWait(
            environ=environ,
            report=console.report,
            monotonic=clock.monotonic,
            stop=lambda: drain.sigterm_received or drain.poll(),
        )

    def execute(self) -> RunResult:
        """Collect what is missing. Raises `nemo_gym.errors.GymError` for what keeps the run from starting."""
        with ThreadPoolExecutor(1) as beside:
            link = beside.submit(_provenance)  # it waits for another program while rows are read
            ran = self._command()
            if isinstance(ran, CollectionEnd):
                return RunResult(ran, None, str(self._config.output_jsonl_fpath))
            prepared = preflight.check(
                self._config,
                environ=self._environ,
                report=self._console.report,
                function=self._function,
                results=ran,
            )
            self._config = prepared.config
            with contextlib.closing(prepared.verifier):
                return self._executed(prepared, link)

    def _command(self) -> CommandResults | CollectionEnd | None:
        """Run the command of the benchmark, if it has one; what it has written is collected then."""
        options = self._config.benchmark.command
        if options is None:
            return None
        from nemo_gym.rollouts.collect.command_step import CommandStep

        ran = CommandStep(
            self._config,
            options,
            drain=self._drain,
            console=self._console,
            clock=self._clock,
            environ=self._environ,
        ).run()
        if isinstance(ran, CollectionEnd):
            return ran
        self._config, self._known_model = ran.config, ran.model
        return ran.results

    def _executed(self, prepared: Prepared, link: Future[Mapping[str, Any]]) -> RunResult:
        prepared.verifier.start()
        collected = self._on_a_loop(prepared, link)
        output = str(prepared.paths.output)
        if collected is None:
            return RunResult(stopped_before_start(self._drain.reason, self._drain.asked_by), None, output)
        end = self._end(collected.counts)
        asked = self._drain.reason not in {None, *SERVER_STOPS} and end.status != 0
        if self._config.disable_aggregation or (asked and not self._quick(collected.counts)):
            return RunResult(end, None, output, collected)
        return RunResult(end, self._add_up(prepared, collected), output, collected)

    def _quick(self, counts: Counts) -> bool:
        """Whether adding up takes no time worth speaking of, so that it is done after a stop as well."""
        return not self._drain.at_once and counts.recorded <= QUICK_ROLLOUTS

    def _on_a_loop(self, prepared: Prepared, link: Future[Mapping[str, Any]]) -> RunOutcome | None:
        """Collect, with signals going to the loop before it runs and until it has ended."""
        with event_loop.runner() as runner:
            self._drain.attach(runner.get_loop())
            try:
                return runner.run(self._collect(prepared, link))
            finally:
                self._drain.detach()

    async def _collect(self, prepared: Prepared, link: Future[Mapping[str, Any]]) -> RunOutcome | None:
        if self._drain.poll():
            return None
        limits = RequestLimits(self._config.request_timeout_seconds, self._config.max_request_attempts)
        judging = opened_judges(prepared.judges, self._retries, self._drain.pause)
        async with open_session(prepared.endpoint, limits) as session, judging:
            policy = HttpPolicy(
                session,
                prepared.endpoint,
                limits,
                retries=self._retries,
                pause=self._drain.pause,
                rate=self._rate_limit(),
            )
            for ask in (False, True) if self._has_all(prepared) else (True,):
                model = await self._model(session, prepared) if ask else None
                if self._drain.reason is not None:
                    return None
                facts = None
                if ask:
                    await self._probe(prepared, policy)
                    facts = await _facts(prepared)
                with self._open(prepared, model, facts, await asyncio.wrap_future(link)) as store:
                    until = UntilRun.open(store, self._config, report=self._console.report)
                    if ask or not store.to_ask or (until is not None and until.decided):
                        return await self._collect_into(store, until, prepared, policy)
        return None

    def _rate_limit(self) -> RateLimit | None:
        config = self._config
        if config.max_requests_per_minute is None and config.max_tokens_per_minute is None:
            return None
        return RateLimit(
            requests=config.max_requests_per_minute,
            tokens=config.max_tokens_per_minute,
            monotonic=self._clock.monotonic,
            pause=self._drain.pause,
        )

    def _has_all(self, prepared: Prepared) -> bool:
        """Whether the recorded rows leave nothing to ask: then the server need not even be there."""
        config, tasks = self._config, prepared.dataset.num_tasks
        return config.resume_from_cache and (
            is_decided(prepared.paths, config, tasks)
            or nothing_to_ask(prepared.paths, tasks, config.repeats, config.max_rollout_attempts)
        )

    async def _model(self, session: aiohttp.ClientSession, prepared: Prepared) -> ModelIdentity | None:
        """Which model answers; ``None`` if it was not asked, or a stop came while it was waited for."""
        if self._config.benchmark.command is not None:
            return self._known_model
        return await found_model(
            session,
            prepared.endpoint,
            self._config,
            drain=self._drain,
            monotonic=self._clock.monotonic,
            report=self._console.report,
        )

    async def _probe(self, prepared: Prepared, policy: HttpPolicy) -> None:
        """Let the agent see whether the server can do what it will ask for. Raises `EndpointError`."""
        probe = getattr(prepared.agent, "probe", None)
        if probe is None:
            return
        try:
            await probe((orjson.loads(line) for line in islice(prepared.rows(), _PROBED_ROWS)), policy)
        except PolicyError as error:
            if error.http_status in _NOT_OFFERED:
                raise EndpointError(f"{_CANNOT_SCORE}: {str(error).rstrip('.')}.") from error

    def _open(
        self,
        prepared: Prepared,
        model: ModelIdentity | None,
        agent_facts: Mapping[str, str] | None,
        link: Mapping[str, Any],
    ) -> OutputStore:
        config, facts = self._config, prepared.dataset
        found = {key: self._environ[name] for key, name in _LINK_VARIABLES.items() if self._environ.get(name)}
        asked = identity_of(
            config,
            dataset_sha256=facts.sha256,
            examples_sha256=facts.examples_sha256,
            model=model.to_json() if model else None,
            agent_facts=agent_facts,
            graded_with=graded_with(prepared.verifier.inner),
        )
        store = self._disk_wait.wait(
            lambda: OutputStore.open(
                prepared.paths,
                identity=asked,
                rows=prepared.rows,
                num_tasks=facts.num_tasks,
                num_repeats=config.repeats,
                max_attempts=config.max_rollout_attempts,
                resume=config.resume_from_cache,
                allow_unsafe=config.allow_unsafe_resume,
                link={**link, **found},
                clock=self._clock,
                first_sha256=facts.first_sha256,
                unpublished=config.benchmark.unpublished,
            )
        )
        prepared.planned.forget()  # they are in their file
        for sentence in store.opened.repaired:
            self._console.report(sentence)
        return store

    async def _collect_into(
        self, store: OutputStore, until: UntilRun | None, prepared: Prepared, policy: HttpPolicy
    ) -> RunOutcome:
        config, resumed, started = self._config, store.recorded, self._clock.monotonic()
        before = store.reward_before
        if not store.opened.fresh:
            self._console.report(
                f"resuming: {resumed:,} of "
                f"{counted(store.expected, 'rollout has', 'rollouts have')} a result, "
                f"{counted(store.to_ask, 'is', 'are')} to be run, {store.exhausted:,} failed for good."
            )
        if store.ungraded:
            some = counted(store.ungraded, "answer is", "answers are")
            self._console.report(
                f"{some} stored without a grade; that is made up for first, without a request."
            )
        report = ProgressReport(
            prepared.paths.progress,
            self._console.show_progress(store.expected),
            now_utc=self._clock.seconds,
            monotonic=self._clock.monotonic,
        )
        collector = Collector(
            store if until is None else until.store,
            agent=prepared.agent,
            verifier=prepared.verifier,
            policy=policy,
            drain=self._drain,
            bounds=Bounds(
                config.num_samples_in_parallel,
                config.drain_margin_s,
                config.walltime_margin_s,
                config.dispatch_budget_s,
            ),
            own_service=config.policy_service_name is not None,
            disk_wait=self._disk_wait,
            on_tick=lambda _: report.tick(snapshot()),
            report=self._console.report,
            monotonic=self._clock.monotonic,
            now=self._clock.seconds,
        )

        def snapshot() -> Snapshot:
            expected = store.recorded if until is not None and until.decided else store.expected
            found = collector.snapshot(expected, resumed, before)
            return found if until is None else replace(found, until=until.sentence)

        state = "failed"
        gc.freeze()  # what was imported and loaded so far is not garbage: never look at it again
        try:
            await collector.collect()
            counts = _counts(store, collector.tally, until)
            state = self._end(counts).state
        finally:
            gc.unfreeze()
            report.finish(_with_state(snapshot(), state))
            if until is not None:
                until.store.close()
            self._console.end_progress()
            if retries := self._retries.sentence():
                self._console.report(retries)
        return RunOutcome(counts, collector.tally, resumed, self._clock.monotonic() - started)

    def _end(self, counts: Counts) -> CollectionEnd:
        return decide_end(
            counts,
            self._drain.reason,
            max_attempts=self._config.max_rollout_attempts,
            asked_by=self._drain.asked_by,
            require_complete=self._config.require_complete,
        )

    def _add_up(self, prepared: Prepared, collected: RunOutcome) -> Summary:
        from nemo_gym.rollouts.scores.aggregate import aggregate  # not before the first request

        config = self._config
        run = {
            "benchmark": config.benchmark.name,
            "agent": config.benchmark.agent["type"],
            "model": prepared.endpoint.model,
            "resumed": collected.resumed,
            "new": collected.counts.new,
            "seconds": round(collected.seconds, 3),
        }
        tasks = prepared.dataset.num_tasks
        return self._disk_wait.wait(
            lambda: aggregate(
                prepared.paths,
                num_tasks=tasks,
                num_repeats=config.repeats,
                run=run,
                verifier=prepared.verifier.inner,
                group_by=config.benchmark.group_by or (),
                prices=prices_of(config),
            )
        )


async def _facts(prepared: Prepared) -> Mapping[str, str] | None:
    """What the agent says that answers depend on besides its options. Raises `GymError`."""
    facts = getattr(prepared.agent, "facts", None)
    return None if facts is None else dict(await facts())


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


def _with_state(snapshot: Snapshot, state: str) -> Snapshot:
    return replace(snapshot, state=state)


def _provenance() -> Mapping[str, Any]:
    from nemo_gym.provenance import provenance

    found = provenance()
    import nemo_gym

    where = os.path.dirname(os.path.abspath(nemo_gym.__file__))
    return {"gym_version": found.version, "gym_commit": found.commit, "gym_path": where}
