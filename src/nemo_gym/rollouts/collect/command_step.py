"""The command of a benchmark that is another program: started, watched, asked to end, started again.

It runs before anything is collected. What it has written when it has ended well are the rollouts, which the
collector then records like any others; until then the output holds nothing but the command's own folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nemo_gym.command_benchmark.options import CommandOptions, variables
from nemo_gym.command_benchmark.results import CommandResults, read_results
from nemo_gym.command_benchmark.state import CommandState, file_digests, load_state
from nemo_gym.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, ConfigError, GymError, ResumeRefusedError
from nemo_gym.rollouts.collect import event_loop, preflight
from nemo_gym.rollouts.collect.console import Console
from nemo_gym.rollouts.collect.drain import POLL_SECONDS, Drain, StopReason
from nemo_gym.rollouts.collect.ends import CollectionEnd
from nemo_gym.rollouts.collect.model_check import found_model
from nemo_gym.rollouts.collect.progress import ProgressLines, ProgressReport, Snapshot
from nemo_gym.rollouts.output import lock
from nemo_gym.rollouts.policy.backoff import RequestLimits
from nemo_gym.rollouts.policy.client import Endpoint, open_session
from nemo_gym.rollouts.policy.endpoint import ModelIdentity
from nemo_gym.rollouts.run_config.identity import differences, identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_runs.clock import SecondsClock
from nemo_runs.durable.files import replace_file
from nemo_runs.processes import trees
from nemo_runs.processes.supervised import Command

MARKER: Final = "NEMO_GYM_COMMAND_OF"
"""The variable by which a command is found that a killed collector has left."""
_START_MARKER: Final = "NEMO_GYM_COMMAND_START"
"""The variable by which its shell finds a command: a later start of it is not its own."""
_AT_THE_END: Final = Path(__file__).with_name("end_when_gone.sh")
_OURS: Final = ("NEMO_GYM_LINK", "NEMO_GYM_COLLECTED", "NEMO_GYM_DRAIN_FILE")
"""Variables by which a job speaks with its collector, and with nobody else."""
_LEAST_GRACE: Final = 2.0
_TAIL: Final = 4000


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A command that has ended well."""

    config: RunConfig
    """The run of what it has written: its questions as rows, as often as it asked each."""
    results: CommandResults
    model: ModelIdentity | None


class CommandStep:
    """The command of one output; `run` is called once."""

    def __init__(
        self,
        config: RunConfig,
        options: CommandOptions,
        *,
        drain: Drain,
        console: Console,
        clock: SecondsClock,
        environ: Mapping[str, str],
    ) -> None:
        self._config = config
        self._options = options
        self._drain = drain
        self._console = console
        self._clock = clock
        self._environ = environ
        self._paths = preflight.output_paths(config)
        self._folder = self._paths.command
        self._endpoint: Endpoint = preflight.endpoint_of(config, environ)
        mark = hashlib.sha256(os.fsencode(self._paths.output)).hexdigest()[:32]
        self._marker = (MARKER, mark)
        self._of_this_start = (_START_MARKER, uuid.uuid4().hex)
        silent = ProgressLines(lambda _: None)
        self._progress = ProgressReport(
            self._paths.progress, silent, now_utc=clock.seconds, monotonic=clock.monotonic
        )

    def run(self) -> CommandEnded | CollectionEnd:
        """Run what is left to run, and read the results; how it ended where it was asked to end before.

        Raises `GymError` for a command that fails, and for one that differs from what was begun here.
        """
        self._refuse_what_it_cannot_do()
        asked = self._asked()
        state = self._state(asked)
        if not state.done:
            self._folder.mkdir(parents=True, exist_ok=True)
            claimant = lock.Claimant.of({}, self._environ)
            claim = lock.acquire(self._paths.lock, claimant, output=self._paths.output)
            try:
                with event_loop.runner() as runner:
                    self._drain.attach(runner.get_loop())
                    try:
                        runner.run(self._ended_well(state, claim))
                    finally:
                        self._drain.detach()
            finally:
                claim.try_to_release()
            if not state.done:
                return self._stopped()
        return self._read(state)

    def _refuse_what_it_cannot_do(self) -> None:
        config = self._config
        problems = {
            "responses_create_params": bool(config.responses_create_params.given()),
            "num_repeats": config.num_repeats is not None or config.benchmark.num_repeats != 1,
            "input_jsonl_fpath": config.input_jsonl_fpath is not None,
            "until": config.until is not None,
            "limit": config.limit is not None and self._options.limit_args is None,
        }
        found = [key for key, is_set in problems.items() if is_set]
        if found:
            remedy = "; benchmark.command.limit_args says how" if found == ["limit"] else ""
            raise ConfigError(
                f"{', '.join(found)}: the command of the benchmark {config.benchmark.name} asks the model "
                f"itself; say it in the command{remedy}."
            )

    def _asked(self) -> dict[str, Any]:
        """What the results depend on, as far as it is known before them."""
        found = identity_of(self._config, dataset_sha256="", model=None).generation
        return {**found, "files": dict(file_digests(self._options.files))}

    def _state(self, asked: dict[str, Any]) -> CommandState:
        known = load_state(self._folder)
        if known is None:
            return CommandState(asked)
        if not self._config.resume_from_cache:
            raise ResumeRefusedError(
                f"{self._paths.output}: its command was begun already; add --resume (resume_from_cache: "
                "true) to go on with it, or choose another --output."
            )
        changed = differences(known.command, asked)
        if changed and not self._config.allow_unsafe_resume:
            listed = "\n  ".join(changed)
            raise ResumeRefusedError(
                f"{self._paths.output}: the command that was begun here is another one than is asked for now:"
                f"\n  {listed}\nChoose another --output."
            )
        return known

    async def _ended_well(self, state: CommandState, claim: lock.Ownership) -> None:
        """Start the command and wait for its end, which ``state`` then has; asked to end, it is not done."""
        if not await self._find_model(state) or self._drain.poll():
            return
        await asyncio.to_thread(self._end_leftovers)
        resumed = state.starts > 0 and self._options.resume_args is not None
        state.outputs = max(1, state.outputs) if resumed else state.outputs + 1
        state.starts += 1
        state.save(self._folder)
        outputs = self._outputs(state)
        outputs.mkdir(parents=True, exist_ok=True)
        log = self._folder / f"log-{state.starts}.txt"
        command = self._started(
            self._options.started(resumed=resumed, limit=self._config.limit), outputs, log
        )
        how = "goes on" if resumed else "started"
        self._console.report(f"the command {how} ({log} has what it says); it writes into {outputs}")
        with self._ended_with_this_process():
            finished = await self._watch(command, claim)
        status = command.reap().shell_status
        if not finished:
            return
        state.last_status = status
        state.done = status == 0
        state.save(self._folder)
        if not state.done:
            again = "goes on from there" if self._options.resume_args is not None else "starts it over"
            raise GymError(
                f"the command ended with status {status}: {self._last_line(log)}; {log} has all that it "
                f"said, and --resume {again}."
            )

    async def _find_model(self, state: CommandState) -> bool:
        """See that the model is there, unless no wait is configured; false where a stop was asked for."""
        limits = RequestLimits(self._config.request_timeout_seconds, self._config.max_request_attempts)
        async with open_session(self._endpoint, limits) as session:
            found = await found_model(
                session,
                self._endpoint,
                self._config,
                drain=self._drain,
                monotonic=self._clock.monotonic,
                report=self._console.report,
            )
        state.model = None if found is None else found.to_json()
        return self._drain.reason is None

    def _outputs(self, state: CommandState) -> Path:
        return self._folder / f"outputs-{state.outputs}"

    def _started(self, argv: list[str], outputs: Path, log: Path) -> Command:
        where = self._options.working_folder or outputs
        try:
            return Command.start(argv, cwd=where, env=self._environment(outputs), output=log, adopted=False)
        except OSError as error:
            reason = (error.strerror or "error").lower()
            raise ConfigError(
                f"benchmark.command: {argv[0]} cannot be started in {where} ({reason})."
            ) from None

    def _environment(self, outputs: Path) -> dict[str, str]:
        """The variables of the command: those of this process, the model's, and its own."""
        places = {"model": self._endpoint.model, "base_url": self._endpoint.base_url, "outputs": str(outputs)}
        key = self._endpoint.api_key.reveal() if self._endpoint.api_key else "dummy"
        own = variables(self._options.env, places, self._environ)
        inherited = {name: value for name, value in self._environ.items() if name not in _OURS}
        return {
            **inherited,
            "OPENAI_BASE_URL": self._endpoint.base_url,
            "OPENAI_API_KEY": key,
            "NEMO_GYM_POLICY_BASE_URL": self._endpoint.base_url,
            "NEMO_GYM_POLICY_MODEL_NAME": self._endpoint.model,
            "NEMO_GYM_POLICY_API_KEY": key,
            "NEMO_GYM_OUTPUTS": str(outputs),
            **own,
            **dict((self._marker, self._of_this_start)),
        }

    @contextlib.contextmanager
    def _ended_with_this_process(self) -> Iterator[None]:
        """A shell that ends the command when this process is gone, however it went."""
        margin = str(math.ceil(self._config.drain_margin_s))
        words = ["/bin/sh", str(_AT_THE_END), self._options.stop_signal, margin, *self._of_this_start]
        with subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        ) as guard:
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    guard.communicate(b"ended\n")

    def _end_leftovers(self) -> None:
        """End what a collector has left that was killed: it carries the mark of this very output."""
        for pid in trees.marked(*self._marker):
            with contextlib.suppress(OSError, LookupError):
                trees.end_tree(trees.identify(pid), grace=self._config.drain_margin_s, marker=self._marker)

    async def _watch(self, command: Command, claim: lock.Ownership) -> bool:
        """Wait for the end; whether it came by itself. What the command has left running is ended."""
        drain, finished = self._drain, True
        grace = _LEAST_GRACE
        try:
            while not command.ended():
                self._show("running")
                claim.beat()
                if await drain.pause(POLL_SECONDS) or drain.poll() or claim.lost():
                    finished = command.ended()
                    break
            if not finished:
                grace = await self._asked_to_end(command)
        finally:
            await asyncio.to_thread(command.end_tree, grace=grace, marker=self._marker)
        if claim.lost():
            raise lock.superseded(self._paths.output)
        return finished

    async def _asked_to_end(self, command: Command) -> float:
        """Ask for the end and wait for it; the seconds that are left of the margin."""
        ahead = self._drain.ahead_of_limit() and self._config.walltime_margin_s is not None
        margin = (self._config.walltime_margin_s if ahead else None) or self._config.drain_margin_s
        deadline = self._clock.monotonic() + margin
        self._console.report(f"stopping: the command gets {margin:g} s to end.")
        self._show("draining")
        command.signal_group(getattr(signal, f"SIG{self._options.stop_signal}"))
        while not command.ended() and not self._drain.at_once:
            if self._clock.monotonic() >= deadline:
                break
            await asyncio.sleep(POLL_SECONDS / 5)
        return _LEAST_GRACE

    def _show(self, state: str) -> None:
        self._progress.tick(Snapshot(1, 0, 0, 0, 0.0, state=state))

    def _stopped(self) -> CollectionEnd:
        """How it ended that was asked to."""
        goes_on = "goes on from there" if self._options.resume_args is not None else "starts it over"
        self._progress.finish(Snapshot(1, 0, 0, 0, 0.0, state="drained"))
        if self._drain.reason is StopReason.INTERRUPT:
            sentence = f"interrupted: the command has not ended; --resume {goes_on}."
            return CollectionEnd(EXIT_INTERRUPTED, "interrupted", sentence)
        by = f" ({self._drain.reason}{f': {self._drain.asked_by}' if self._drain.asked_by else ''})"
        sentence = f"drained{by}: the command has not ended; --resume {goes_on}."
        return CollectionEnd(EXIT_INCOMPLETE, "drained", sentence)

    def _read(self, state: CommandState) -> CommandEnded:
        results = read_results(self._outputs(state), self._options.results)
        questions = self._folder / "questions.jsonl"
        lines = (json.dumps(question.row, ensure_ascii=False) for question in results.questions)
        replace_file(questions, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        changed = {"input_jsonl_fpath": questions, "num_repeats": results.repeats}
        model = None if state.model is None else ModelIdentity(**state.model)
        return CommandEnded(self._config.model_copy(update=changed), results, model)

    def _last_line(self, log: Path) -> str:
        """The last line that it printed, without the key."""
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").strip().splitlines()
        last = " ".join((lines or ["it said nothing"])[-1].split())[:300]
        return self._endpoint.without_key(last)
