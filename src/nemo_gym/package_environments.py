"""Environments of other packages: pinned, with an interpreter of their own, installed on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

from nemo_gym.errors import GymError
from nemo_runs.environments import installing, package_links
from nemo_runs.environments.installing import EnvironmentRecipe

_PACKAGES = ("nemo_gym", "nemo_runs")
"""What their interpreters get of ours."""


class NoEnvironmentError(GymError):
    """A package is not there and cannot be installed."""


def pins_text(folder: str, name: str) -> str:
    """A file of pins, of the folder of the package's own code."""
    return (resources.files("nemo_gym") / folder / "pins" / name).read_text(encoding="utf-8")


def ensure_python(
    recipe: EnvironmentRecipe,
    report: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    *,
    what: str,
    command: str,
) -> Path:
    """The interpreter, its environment installed first if it is not there. Raises `NoEnvironmentError`.

    ``what`` begins its sentence, as in ``bfcl: the package bfcl-eval``; ``command`` installs it elsewhere.
    """
    cache = installing.cache_folder(environ)
    try:
        folder = installing.find(recipe, cache) or installing.install(recipe, cache, report=report)
    except installing.NotInstalledError as error:
        raise NoEnvironmentError(
            f"{what} is not on this machine, and {error}; where there is no network, run `{command}` on a "
            "machine that shares this cache folder."
        ) from error
    except OSError as error:
        raise NoEnvironmentError(f"{what} cannot be installed: {error}.") from error
    return installing.python_of(folder)


def worker_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of such an interpreter's processes: our packages, and nothing else, on its path."""
    folder = package_links.link_folder(installing.cache_folder(environ), _PACKAGES)
    return package_links.variables(folder, environ)
