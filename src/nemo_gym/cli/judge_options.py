"""The options that say which judge models grade: those of `gym eval run`, `preview` and `reverify`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from nemo_gym.overrides import Override

_NAMED: Final = re.compile(r"([A-Za-z_][\w-]*)=(.*)", re.DOTALL)
_KEYS: Final = {"judges": "model", "judge_urls": "base_url", "judge_keys": "api_key"}
"""Options and the keys of a judge model that they set."""
_OPTIONS: Final = (
    click.option(
        "--judge",
        "judges",
        multiple=True,
        metavar="[NAME=]MODEL",
        help="Judge model; NAME is its name in judge_models, `judge` unless given. Repeatable.",
    ),
    click.option(
        "--judge-url",
        "judge_urls",
        multiple=True,
        metavar="[NAME=]URL",
        help="Base URL of the judge's server, with its /v1; repeatable.",
    ),
    click.option(
        "--judge-api-key",
        "judge_keys",
        multiple=True,
        metavar="[NAME=]host:VAR",
        help="Variable that holds the judge's API key; repeatable.",
    ),
)


def judge_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gives all that it gets of them to `chosen_judges`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_judges(flags: Mapping[str, Sequence[str]]) -> list[Override]:
    """What the options set."""
    from nemo_gym.overrides import Override

    found = []
    for option, key in _KEYS.items():
        for given in flags.get(option, ()):
            named = _NAMED.fullmatch(given)
            name, value = named.groups() if named else ("judge", given)
            if key == "api_key" and not value.startswith("host:"):
                raise click.UsageError("--judge-api-key takes host:VAR, never the key itself.")
            path = f"judge_models.{name}.{key}"
            found.append(Override(path, value, "++", f"++{path}={value}"))
    return found
