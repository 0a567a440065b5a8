"""`gym eval run`: collect rollouts of one benchmark on this machine."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemo_cli.completion import files
from nemo_cli.program import let_stdout_go
from nemo_gym.cli.foreign_options import EvalCommand, Tasks
from nemo_gym.cli.options import json_option
from nemo_gym.cli.run_options import Chosen, load, run_options
from nemo_gym.errors import ConfigError, GymError
from nemo_gym.rollouts.collect.drain import Drain, StoppedEarly, StopReason
from nemo_runs.errors import RunsError

if TYPE_CHECKING:
    from nemo_gym.rollouts.collect.console import Console
    from nemo_gym.rollouts.collect.ends import CollectionEnd
    from nemo_gym.rollouts.collect.run import RunResult
    from nemo_gym.rollouts.run_config.schema import RunConfig


@click.command(cls=EvalCommand)
@run_options
@click.option(
    "--model-api-key",
    metavar="host:VAR|-",
    help="Variable that holds the API key, or - for stdin.",
)
@click.option(
    "-o",
    "--output",
    "output_path",
    metavar="FILE",
    shell_complete=files,
    help="Where result rows go (JSONL).",
)
@click.option("--limit", type=Tasks(), help="Only the first N tasks; 0 means all.")
@click.option("--num-repeats", type=int, help="Rollouts per task, in place of the benchmark's own number.")
@click.option("--concurrency", type=int, help="Rollouts at the same time (32).")
@click.option("--resume", is_flag=True, default=None, help="Go on with what the output holds already.")
@json_option
def run(
    config_paths: tuple[str, ...],
    benchmark: str | None,
    search_dirs: tuple[Path, ...],
    verifier: str | None,
    as_json: bool,
    overrides: tuple[str, ...],
    **flags: Any,
) -> int:
    """Collect rollouts of one benchmark and print the score.

    OVERRIDES are key=value (a key that exists), +key=value and ++key=value (added if missing). With --input
    and --verifier no benchmark is needed: how rows are asked is guessed from their fields. Results are
    appended to --output, one row a rollout, so that a run which was stopped goes on with --resume.

    Ends with 0 when complete, 75 when incomplete with work left to retry, 76 when incomplete with nothing
    left to retry, 1 on error, 130 when interrupted.
    """
    drain = Drain()
    drain.install()
    try:
        from nemo_gym.rollouts.collect.console import Console

        console = Console()
        _import_beside("aiohttp")

        def guessed(said: str) -> None:
            console.report(f"{said} `gym eval preview` shows what is asked.")

        chosen = Chosen(config_paths, benchmark, search_dirs, verifier, overrides, flags)
        config = _with_reference(load(chosen, report=guessed))
        with _answering(config, console) as config:
            result = _execute(config, drain, console)
    except StoppedEarly as signal:
        return _stopped_early(str(signal))
    except (GymError, RunsError) as error:
        _write_exit_report(error)
        raise
    finally:
        drain.restore()
    _write_exit_report(result)
    try:
        _print(result, as_json)
    except BrokenPipeError:  # the reader has left; the exit status is still about the rollouts
        let_stdout_go()
    finally:
        console.report(f"gym: {result.end.sentence}")
        if not as_json:
            console.report(f"gym: results are in {result.output}")
    return result.end.status


def _import_beside(name: str) -> None:
    """Begin to import a module on another thread, which reads certificates and waits for disks meanwhile."""

    def load() -> None:
        with contextlib.suppress(ImportError):  # a command that needs it reports the error
            importlib.import_module(name)

    threading.Thread(target=load, name=f"import {name}").start()


def _write_exit_report(last: RunResult | CollectionEnd | Exception) -> None:
    """Inform the chain that this run is part of, if it is, how it ended."""
    from nemo_gym.rollouts.collect import ends, exit_report
    from nemo_gym.rollouts.collect.console import Console
    from nemo_gym.rollouts.output.disk_wait import DiskWait
    from nemo_runs.errors import DiskFullError

    if isinstance(last, Exception):
        ended = exit_report.of_error(last)
    elif isinstance(last, ends.CollectionEnd):
        ended = exit_report.of_end(last, None)
    else:
        found = last.collected
        ended = exit_report.of_end(
            last.end, found.counts if found else None, rejected=found.rejected if found else None
        )
    try:
        if isinstance(last, Exception):
            exit_report.write(ended, os.environ)
        else:
            report = Console().report
            DiskWait(environ=os.environ, report=report).wait(lambda: exit_report.write(ended, os.environ))
    except (DiskFullError, OSError):
        if not isinstance(last, Exception):
            raise
        # its own error says more


def _stopped_early(signal: str) -> int:
    from nemo_gym.rollouts.collect.ends import stopped_before_start

    end = stopped_before_start(StopReason.SIGNAL, signal)
    _write_exit_report(end)
    click.echo(f"gym: {end.sentence}", err=True)
    return end.status


def _with_reference(config: RunConfig) -> RunConfig:
    """The same with the rows of the run that it is compared with in place of the id of a submission."""
    until = config.until
    if until is None or until.better_than is None or "/" in until.better_than:
        return config
    from nemo_gym.orchestration.records.reference_run import reference_rows

    rows = reference_rows(until.better_than, config.benchmark.name, where="until.better_than")
    return config.model_copy(update={"until": until.model_copy(update={"better_than": rows})})


@contextlib.contextmanager
def _answering(config: RunConfig, console: Console) -> Iterator[RunConfig]:
    """The configuration with an address: a model that has none is looked for among those of the service."""
    name = config.policy_model_name
    if config.policy_base_url is not None or name is None or config.benchmark.command is not None:
        yield config
        return
    from nemo_gym.serving import registered

    try:
        model = registered.find(name)
    except GymError as error:
        raise ConfigError(
            f"the policy model is not fully named: missing policy_base_url (--model-url), and the Jobs "
            f"service has no '{name}' either: {error}"
        ) from error
    console.report(f"gym: serves {model.name} from {model.folder}")
    with registered.served(model) as address:
        yield config.model_copy(
            update={
                "policy_model_name": model.name,
                "policy_model_digest": model.digest,
                "policy_base_url": address.url,
                "policy_api_key": f"host:{address.key_variable}",
            }
        )


def _execute(config: RunConfig, drain: Drain, console: Console) -> RunResult:
    from nemo_gym.rollouts.collect.run import CollectorRun
    from nemo_runs.clock import SystemClock

    return CollectorRun(config, drain=drain, console=console, clock=SystemClock()).execute()


def _print(result: RunResult, as_json: bool) -> None:
    if as_json:
        import json

        click.echo(json.dumps(result.to_json(), ensure_ascii=False))
    elif result.summary is not None:
        result.summary.print(sys.stdout)
        sys.stdout.flush()
