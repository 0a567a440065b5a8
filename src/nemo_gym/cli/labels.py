"""The option ``--label k=v`` of several commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from nemo_gym.cli import completing

_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*)=(.*)", re.DOTALL)


def labels_option(help_line: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--label``, which can be repeated; the command gets ``labels``, a dict."""
    return click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="K=V",
        callback=_read,
        shell_complete=completing.label_values,
        help=help_line,
    )


def _read(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        found = _LABEL.fullmatch(text)
        if found is None:
            raise click.BadParameter(f"'{text}' is not a label: a label looks like key=value")
        if labels.setdefault(found[1], found[2]) != found[2]:
            raise click.BadParameter(f"the label {found[1]} is given twice")
    return labels
