"""Options that several commands for models take."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import click

from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_models.local_models import LocalModel, ModelFinder

Function = Callable[..., Any]

device_option = click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="What it is computed on; a GPU where there is one.",
)
threads_option = click.option(
    "--threads", type=click.IntRange(1, 512), metavar="N", help="CPU threads, in place of all cores but one."
)


def model_argument(function: Function) -> Function:
    """Add the argument NAME: a model of the service, or a folder."""
    return click.argument("name", metavar="NAME")(function)


def base_option(function: Function) -> Function:
    """Add ``--base``: the base model, where it is not the one that the model itself names."""
    return click.option(
        "--base",
        metavar="NAME|FOLDER",
        help="Its base model, in place of the one it names: a model, a folder (/… or ./…) or hf://owner/name.",
    )(function)


def found(call: CommandContext, name: str, base: str | None, *, with_base: bool = False) -> LocalModel:
    """The model with its files on this machine."""
    return ModelFinder(call, call.report).find(name, base=base, with_base=with_base)


def names_of(model: LocalModel, *, with_base: bool) -> tuple[str, str | None]:
    """What the model and, where it answers too, its base model are called."""
    if not with_base or model.base is None:
        return model.name, None
    return model.name, model.base.name if model.base.name != model.name else f"{model.name} (base)"


def new_key(environ: Mapping[str, str] = os.environ, *, variable: str | None = None) -> str:
    """The key in a variable, or a new one."""
    given = environ.get(variable) if variable else None
    return given or secrets.token_urlsafe(24)
