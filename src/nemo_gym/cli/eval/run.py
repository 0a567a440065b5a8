"""`gym eval run`: collect rollouts of one benchmark on this machine."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemo_cli.program import let_stdout_go
from nemo_gym.cli.options import (
    include_path_option,
    included_folders,
    json_option,
    overrides_argument,
)
from nemo_gym.errors import GymError
from nemo_gym.rollouts.collect.drain import Drain, StoppedEarly, StopReason
from nemo_runs.errors import RunsError

if TYPE_CHECKING:
    from nemo_gym.composition import Override
    from nemo_gym.rollouts.collect.console import Console
    from nemo_gym.rollouts.collect.ends import CollectionEnd
    from nemo_gym.rollouts.collect.run import RunResult
    from nemo_gym.rollouts.run_config.schema import RunConfig

_KEY_VARIABLE = "NEMO_GYM_POLICY_API_KEY"
_FLAGS = {
    "model": "policy_model_name",
    "model_url": "policy_base_url",
    "model_api_key": "policy_api_key",
    "temperature": "responses_create_params.temperature",
    "top_p": "responses_create_params.top_p",
    "max_output_tokens": "responses_create_params.max_output_tokens",
    "input_path": "input_jsonl_fpath",
    "output_path": "output_jsonl_fpath",
    "limit": "limit",
    "num_repeats": "num_repeats",
    "concurrency": "num_samples_in_parallel",
    "split": "split",
    "resume": "resume_from_cache",
}
"""Options and the keys that they set; an override token of the same key wins."""


@click.command()
@click.option(
    "-c",
    "--config",
    "config_paths",
    multiple=True,
    metavar="FILE",
    help="Config file to include; repeatable.",
)
@click.option("--benchmark", metavar="NAME", help="A benchmark by name (`gym list benchmarks`).")
@click.option(
    "--search-dir",
    "search_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to look for benchmarks and configs in; repeatable.",
)
@include_path_option
@click.option("-m", "--model", metavar="NAME", help="Name of the model, as the server lists it.")
@click.option("--model-url", metavar="URL", help="Base URL of an OpenAI-compatible server, with its /v1.")
@click.option(
    "--model-api-key",
    metavar="host:VAR|-",
    help="Variable that holds the API key, or - for stdin.",
)
@click.option("--temperature", type=float, help="Sampling temperature; 0 is the likeliest answer.")
@click.option("--top-p", type=float, help="Sample from the likeliest tokens of this share together, 0 to 1.")
@click.option("--max-output-tokens", type=int, help="Longest answer, in tokens.")
@click.option("-i", "--input", "input_path", metavar="FILE", help="Rows that replace the benchmark's data.")
@click.option("-o", "--output", "output_path", metavar="FILE", help="Where result rows go (JSONL).")
@click.option("--limit", type=int, help="Only the first N tasks; 0 means all.")
@click.option("--num-repeats", type=int, help="Rollouts per task, in place of the benchmark's own number.")
@click.option("--concurrency", type=int, help="Rollouts at the same time (32).")
@click.option("--split", type=click.Choice(["benchmark", "validation", "train"]), help="Which data.")
@click.option("--resume", is_flag=True, default=None, help="Go on with what the output holds already.")
@json_option
@overrides_argument
def run(
    config_paths: tuple[str, ...],
    benchmark: str | None,
    search_dirs: tuple[Path, ...],
    as_json: bool,
    overrides: tuple[str, ...],
    **flags: Any,
) -> int:
    """Collect rollouts of one benchmark and print the score.

    OVERRIDES are key=value (a key that exists), +key=value and ++key=value (added if missing). Results are
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
        result = _execute(_load(config_paths, benchmark, search_dirs, overrides, flags), drain, console)
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


def _load(
    config_paths: tuple[str, ...],
    benchmark: str | None,
    search_dirs: tuple[Path, ...],
    overrides: tuple[str, ...],
    flags: dict[str, Any],
) -> RunConfig:
    from nemo_gym.composition import parse_overrides
    from nemo_gym.rollouts.run_config.schema import load_run_config

    included = included_folders(flags.pop("include_paths"))
    chosen = [*_of_flags(flags), *included, *parse_overrides(overrides)]
    loaded = load_run_config(config_paths, benchmark, chosen, search_dirs=search_dirs, cwd=Path.cwd())
    return loaded.config


def _of_flags(flags: dict[str, Any]) -> list[Override]:
    from nemo_gym.composition import Override

    flags["model_api_key"] = _key_reference(flags["model_api_key"])
    return [
        Override(key, flags[name], "", f"{key}={flags[name]}")
        for name, key in _FLAGS.items()
        if flags[name] is not None
    ]


def _key_reference(value: str | None) -> str | None:
    """``host:VAR`` as it is; ``-`` reads the key into this process's environment; a literal is refused."""
    if value is None or value.startswith("host:"):
        return value
    if value != "-":
        raise click.UsageError("--model-api-key takes host:VAR or - (standard input), never the key itself.")
    os.environ[_KEY_VARIABLE] = sys.stdin.readline().strip()
    if not os.environ[_KEY_VARIABLE]:
        raise click.UsageError("--model-api-key -: standard input holds no key.")
    return f"host:{_KEY_VARIABLE}"


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
