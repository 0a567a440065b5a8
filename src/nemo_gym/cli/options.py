"""What several commands share: `--json` before or after the command, and override tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nemo_gym.overrides import Override


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``; the command gets ``as_json``, true also when it was given before the command."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=lambda ctx, _param, value: value or bool((ctx.obj or {}).get("json")),
        help="Print one JSON document on stdout and nothing else.",
    )(command)


def overrides_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the trailing override tokens ``key=value``, ``+key=value``, ``++key=value`` as ``overrides``."""
    return click.argument("overrides", nargs=-1, type=click.UNPROCESSED, callback=_checked)(command)


def include_path_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--include-path``, folders with a user's own tasks for lm-eval, as ``include_paths``."""
    return click.option(
        "--include-path",
        "include_paths",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder with tasks of your own for lm_eval/TASK; repeatable.",
    )(command)


def included_folders(folders: Sequence[Path]) -> list[Override]:
    """What ``--include-path`` sets."""
    from nemo_gym.overrides import Override

    key = "benchmark.lm_eval.include_path"
    value = [str(folder) for folder in folders]
    return [Override(key, value, "", f"{key}={value}")] if value else []


def duration(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is not a duration: the callback of an option that takes one."""
    from nemo_runs.durations import parse_duration
    from nemo_runs.errors import DurationError

    if value is not None:
        try:
            parse_duration(value, where="")
        except DurationError as error:
            raise click.BadParameter(str(error).removeprefix(": ")) from None
    return value


def _checked(ctx: click.Context, _param: click.Parameter, tokens: tuple[str, ...]) -> tuple[str, ...]:
    for token in tokens:
        key, equals, _ = token.lstrip("+").partition("=")
        if not equals or not key:
            message = f"'{token}' is not an override, which looks like key=value, +key=value or ++key=value"
            raise click.UsageError(message + _meant(ctx, token))
    return tokens


_GIVEN_WITH = (
    ((".yaml", ".yml"), "a configuration file", "--config"),
    ((".jsonl",), "a file of results", "--rollouts"),
    ((".jsonl", ".csv", ".tsv", ".parquet", ".gz", ".zst"), "a file of rows", "--input"),
    (("",), "a benchmark", "--benchmark"),
)
"""Ends of words, what such a word names, and the option that it belongs to."""


def _meant(ctx: click.Context, token: str) -> str:
    """The option without which the word was typed, of those that the command has."""
    options = {option for parameter in ctx.command.params for option in parameter.opts}
    for ends, what, option in _GIVEN_WITH:
        if ends == ("",) and "--rollouts" in options:
            return "; the results that are graded again are given with --rollouts FILE"
        if option in options and token.endswith(ends):
            return f"; {what} is given with {option} {token}"
    return ""
