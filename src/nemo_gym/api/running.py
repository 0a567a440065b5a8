"""One evaluation from a script or a notebook."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from nemo_gym.api.asking import Asked, Grader, Questions
from nemo_gym.api.errors_in_python import in_python, in_words_of_python
from nemo_gym.api.eval_results import EvalResult, result_of
from nemo_gym.rollouts.collect.console import Console
from nemo_gym.rollouts.collect.drain import Drain, StopReason
from nemo_gym.rollouts.collect.run import CollectorRun, RunResult
from nemo_gym.rollouts.data.prepare import with_definition
from nemo_gym.rollouts.data.run_request import config_of
from nemo_gym.rollouts.scores.reverify import Reverified
from nemo_gym.rollouts.scores.reverify import reverify as grade_again
from nemo_runs.clock import SystemClock

Done = TypeVar("Done")


def run(
    questions: Questions | None = None,
    *,
    output: str | Path,
    model: str | None = None,
    model_url: str | None = None,
    model_api_key: str | None = None,
    verifier: Grader | None = None,
    prompt: str | None = None,
    system: str | None = None,
    config: str | Path | Iterable[str | Path] = (),
    split: Literal["benchmark", "validation", "train"] | None = None,
    limit: int | None = None,
    num_repeats: int | None = None,
    concurrency: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_output_tokens: int | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: bool = True,
) -> EvalResult:
    """Collect and grade the rollouts of one benchmark, as `gym eval run` does, and return what they came to.

    It returns when no rollout is left to try, so the result may be incomplete: see `EvalResult.state`. It
    blocks, also in a running event loop, as notebooks have; there it works on a thread of its own. Ctrl-C
    lets running rollouts finish, a second one drops them, and ``KeyboardInterrupt`` is raised; every answer
    so far is in the output, and the same call with ``resume=True`` goes on from there.

    questions: rows as mappings; or the path of a file of rows; or the name of a benchmark
        (`gym list benchmarks`). ``None`` where ``config`` names a benchmark.
    output: the file of result rows, ``….jsonl``; or a folder, in which it is ``rollouts.jsonl``.
    model: its name, as the server lists it.
    model_url: base URL of an OpenAI-compatible server, with its ``/v1``.
    model_api_key: ``host:VAR``, the environment variable that holds the key; never the key itself.
    verifier: the type of a verifier, a mapping with its type and options, or a function, called with those of
        ``answer``, ``row``, ``episode`` and ``models`` that it names, which returns a reward in [0, 1], a
        mapping or a `nemo_gym.types.Verdict`. ``None``: the benchmark's own. Of a function, a digest of its
        source is recorded, together with the functions and constants of its module that it uses; a changed
        one does not resume.
    prompt: what the user says, ``{field}`` being a field of the row. ``None``: the benchmark's, or a guess.
    system: instructions.
    config: config files to include.
    split: which data of the benchmark.
    limit: only the first so many tasks; ``None`` and 0 mean all.
    num_repeats: rollouts per task, in place of the benchmark's own number.
    concurrency: rollouts at the same time.
    temperature, top_p, max_output_tokens: of each request.
    settings: any other setting of a run by its dotted key, as in ``{"judge_models": {…}}``; it wins.
    resume: go on with what the output holds already; without it an output that is there is refused.
    progress: show progress and what there is to say on standard error.

    Raises `nemo_gym.errors.GymError` with one sentence for what keeps the run from starting or going on.
    """
    asked = Asked(questions, output, verifier, prompt, system, config, settings)
    options: dict[str, Any] = {"model": model, "model_url": model_url, "model_api_key": model_api_key}
    options |= {"split": split, "limit": limit, "num_repeats": num_repeats, "concurrency": concurrency}
    options |= {"temperature": temperature, "top_p": top_p, "max_output_tokens": max_output_tokens}
    return _collected(asked, options | {"resume": resume or None}, _console(progress))


def reverify(
    questions: Questions | None = None,
    *,
    output: str | Path,
    verifier: Grader | None = None,
    prompt: str | None = None,
    system: str | None = None,
    config: str | Path | Iterable[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> EvalResult:
    """Grade the answers of an output again, as `gym eval reverify` does; no model is asked for an answer.

    The arguments are those of `run`, and must ask what the answers came from; ``verifier`` is the new one.
    Replaced rows are kept beside the output. Raises `nemo_gym.errors.GymError` where the answers belong to
    something else, or the verifier fails on one of them: then nothing is replaced.
    """
    asked = Asked(questions, output, verifier, prompt, system, config, settings)
    console = _console(progress)
    with in_words_of_python():
        request = asked.request({})

        def grade() -> Reverified:
            found = config_of(request, cwd=Path.cwd(), report=console.report)
            found = with_definition(found, report=console.report)
            return grade_again(asked.paths, found, report=console.report, function=asked.function)

        done = _off_the_loop(grade, lambda: None)
    changed = f"{done.grades.changed:,} of {done.grades.rows:,} grades changed"
    found = result_of(asked.paths, _name(asked))
    console.report(f"{changed}; the old rows are kept in {done.superseded}")
    return found


def _collected(asked: Asked, options: Mapping[str, Any], console: Console) -> EvalResult:
    """What `run` returns, with Ctrl-C taken over in the meantime."""
    drain = Drain(signals=(signal.SIGINT,), leave=lambda _status: None)
    drain.install()
    try:
        with in_words_of_python():
            request = asked.request(options)

            def collect() -> RunResult:
                found = config_of(request, cwd=Path.cwd(), report=console.report)
                return CollectorRun(
                    found, drain=drain, console=console, clock=SystemClock(), function=asked.function
                ).execute()

            ended = _off_the_loop(collect, lambda: drain.ask(StopReason.INTERRUPT, signal.SIGINT.name))
    finally:
        drain.restore()
    sentence = in_python(ended.end.sentence)
    if drain.reason is StopReason.INTERRUPT:
        raise KeyboardInterrupt(sentence)
    return result_of(asked.paths, _name(asked), state=ended.end.state, detail=sentence)


def _console(progress: bool) -> Console:
    """Standard error, or nothing that anybody sees."""
    return Console(None if progress else io.StringIO())


def _name(asked: Asked) -> str:
    """What the benchmark is called where nothing recorded says it."""
    return asked.paths.output.stem


def _off_the_loop(work: Callable[[], Done], interrupt: Callable[[], None]) -> Done:
    """Do the work, on a thread of its own where this one has a running event loop, as in a notebook.

    ``interrupt`` is called for a Ctrl-C that nothing else hears.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1, thread_name_prefix="evaluation") as beside:
        future = beside.submit(work)
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:
                if future.done():
                    raise
                interrupt()
