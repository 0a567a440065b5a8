"""The environment of BFCL: its package and what its checkers import, installed on first use."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from nemo_gym.errors import GymError
from nemo_runs.environments import installing, package_links
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile

_PACKAGES = ("nemo_gym", "nemo_runs")
"""What its interpreter gets of ours."""
_OURS = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")


class NoBfclError(GymError):
    """bfcl-eval is not there and cannot be installed."""


@cache
def recipe() -> EnvironmentRecipe:
    """How the environment is made."""
    return EnvironmentRecipe(
        name="bfcl", device="cpu", pins=(PinsFile("bfcl.txt", _pins()),), noun="the environment"
    )


@cache
def version() -> str:
    """The version of bfcl-eval."""
    found = re.match(r"bfcl-eval==(\S+)", _pins())
    assert found is not None
    return found[1]


@cache
def pins_digest() -> str:
    """Sixteen hexadecimal digits that change when a package does."""
    return hashlib.sha256(_pins().encode()).hexdigest()[:16]


def _pins() -> str:
    return (resources.files("nemo_gym") / "bfcl" / "pins" / "bfcl.txt").read_text(encoding="utf-8")


def ensure_python(report: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Path:
    """The interpreter, its environment installed first if it is not there. Raises `NoBfclError`."""
    cache_folder = installing.cache_folder(environ)
    found = installing.find(recipe(), cache_folder)
    if found is not None:
        return installing.python_of(found)
    try:
        return installing.python_of(installing.install(recipe(), cache_folder, report=report))
    except installing.NotInstalledError as error:
        raise NoBfclError(
            f"bfcl: the package bfcl-eval is not on this machine, and {error}; where there is no network, "
            "run `gym eval prepare --benchmark bfcl` on a machine that shares this cache folder."
        ) from error
    except OSError as error:
        raise NoBfclError(f"bfcl: the package bfcl-eval cannot be installed: {error}.") from error


def to_stderr(line: str) -> None:
    """Say on standard error what is installed."""
    sys.stderr.write(f"gym: {line}\n")


def worker_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of its processes: our packages on the path, and no folder for results of its own."""
    path = package_links.link_folder(installing.cache_folder(environ), _PACKAGES)
    kept = {name: value for name, value in environ.items() if name not in _OURS}
    return {**kept, "PYTHONPATH": str(path), "PYTHONNOUSERSITE": "1"}
