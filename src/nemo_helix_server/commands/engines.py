"""`nemo engines`: the environments in which training libraries run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from nemo_helix_server.engines import catalogue, environments, machine, probing
from nemo_helix_server.engines.catalogue import Device, EngineRecipe
from nemo_helix_server.errors import ServerError

_NAMES = click.Choice(sorted(catalogue.RECIPES))
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
_DEVICE = click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="Which wheels: those for machines without a GPU or with one. By default what this machine has.",
)


class _Failure(click.ClickException):
    """An error of the service's packages as the command line shows it."""

    exit_code = 1


@click.group()
def engines() -> None:
    """Install and look at the training engines of this machine.

    Each engine has an interpreter of its own, since the libraries ask for clashing versions. They are kept
    in the user's cache ($XDG_CACHE_HOME/nhx/engines) under the digest of their pins.
    """


@engines.command("list", short_help="Which engines there are, and which are installed.")
@_DEVICE
@_JSON
def list_engines(device: Device | None, as_json: bool) -> None:
    """Which engines there are, and which of them are installed; nothing is started."""
    found = device or machine.found_device()
    cache = environments.cache_folder()
    _show(
        [probing.quick_report(recipe, found, cache) for recipe in catalogue.RECIPES.values()], as_json=as_json
    )


@engines.command(short_help="Install engines, each into an environment of its own.")
@click.argument("names", metavar="NAME...", nargs=-1, type=_NAMES)
@click.option("--all", "every", is_flag=True, help="Every engine.")
@click.option("--again", is_flag=True, help="Install it again, even where it is installed.")
@_DEVICE
def install(names: Sequence[str], every: bool, again: bool, device: Device | None) -> None:
    """Install engines, each into an environment of its own; what is there already is left alone."""
    chosen = list(catalogue.RECIPES.values()) if every else [catalogue.recipe(name) for name in names]
    if not chosen:
        raise click.UsageError(f"name an engine ({', '.join(sorted(catalogue.RECIPES))}) or give --all")
    found = device or machine.found_device()
    for recipe in chosen:
        click.echo(_install(recipe, found, again=again))


def _install(recipe: EngineRecipe, device: Device, *, again: bool) -> Path:
    try:
        made = environments.install(
            recipe,
            device,
            environments.cache_folder(),
            report=lambda text: click.echo(text, err=True),
            again=again,
        )
    except ServerError as error:
        raise _Failure(error.detail) from error
    return made.python


@engines.command(short_help="Load an engine's libraries, and say which device they see.")
@click.argument("name", metavar="[NAME]", required=False, type=_NAMES)
@_DEVICE
@_JSON
def doctor(name: str | None, device: Device | None, as_json: bool) -> None:
    """Load an engine's libraries in a process of their own and say which device they see, or why not.

    Without NAME every engine is looked at. Ends with 1 when an engine that was named, or every one, is
    unusable.
    """
    found = device or machine.found_device()
    cache = environments.cache_folder()
    recipes = [catalogue.recipe(name)] if name else list(catalogue.RECIPES.values())
    reports = [probing.examine(recipe, found, cache) for recipe in recipes]
    _show(reports, as_json=as_json)
    if not any(report.usable for report in reports):
        raise click.exceptions.Exit(1)


def _show(reports: Iterable[probing.EngineReport], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([report.to_json() for report in reports], indent=2))
        return
    for report in reports:
        for line in _lines(report):
            click.echo(line)


def _lines(report: probing.EngineReport) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    facts: dict[str, Any] = {
        "state": "installed" if report.folder else "not installed",
        "in": report.folder,
        "versions": versions,
        "device": ", ".join(filter(None, [report.device, *report.gpus])),
        "problem" if not report.usable else "note": report.problem,
    }
    return [
        f"{report.engine}: {report.summary}",
        *(f"  {name}: {value}" for name, value in facts.items() if value),
    ]
