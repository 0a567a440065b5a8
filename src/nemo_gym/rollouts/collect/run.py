"""One `gym eval run`, wired together: check, reach the model, open the output, collect, add up."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from nemo_gym.rollouts.collect import event_loop, preflight
from nemo_gym.rollouts.collect.collection import RunContext, RunOutcome, collect_into, end_of
from nemo_gym.rollouts.collect.console import Console
from nemo_gym.rollouts.collect.drain import SERVER_STOPS, Drain
from nemo_gym.rollouts.collect.ends import CollectionEnd, Counts, stopped_before_start
from nemo_gym.rollouts.collect.model_check import agent_facts, check_agent, found_model
from nemo_gym.rollouts.collect.preflight import Prepared
from nemo_gym.rollouts.collect.request_share import RequestShare
from nemo_gym.rollouts.collect.until_run import UntilRun, is_decided
from nemo_gym.rollouts.judges.configured import prices_of
from nemo_gym.rollouts.judges.models import opened_judges
from nemo_gym.rollouts.output.disk_wait import DiskWait
from nemo_gym.rollouts.output.index_reader import nothing_to_ask
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.policy.backoff import RequestLimits
from nemo_gym.rollouts.policy.client import HttpPolicy, open_session
from nemo_gym.rollouts.policy.endpoint import ModelIdentity
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.rollouts.policy.rate_limit import RateLimit
from nemo_gym.rollouts.run_config.identity import identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.verifiers.registry import graded_with
from nemo_runs.clock import SecondsClock

if TYPE_CHECKING:
    from nemo_gym.command_benchmark.results import CommandResults
    from nemo_gym.rollouts.scores.summary import Summary

QUICK_ROLLOUTS = 50_000
"""Results that are added up in a second or two."""

_LINK_VARIABLES = {"job_id": "NEMO_GYM_JOB_ID", "restart": "NEMO_GYM_RESTART", "chain": "NEMO_GYM_CHAIN"}


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
        self._context = RunContext(
            drain, console, clock, self._retries, self._disk_wait, RequestShare(environ)
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
        end = end_of(collected.counts, self._config, self._drain)
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
                    await check_agent(prepared.agent, prepared.rows, policy)
                    facts = await agent_facts(prepared.agent)
                with self._open(prepared, model, facts, await asyncio.wrap_future(link)) as store:
                    until = UntilRun.open(store, self._config, report=self._console.report)
                    if ask or not store.to_ask or (until is not None and until.decided):
                        return await collect_into(store, until, prepared, policy, self._context)
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


def _provenance() -> Mapping[str, Any]:
    from nemo_gym.provenance import provenance

    found = provenance()
    import nemo_gym

    where = os.path.dirname(os.path.abspath(nemo_gym.__file__))
    return {"gym_version": found.version, "gym_commit": found.commit, "gym_path": where}
