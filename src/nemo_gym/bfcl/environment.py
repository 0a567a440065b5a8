"""The environment of BFCL: its package and what its checkers import, installed on first use."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from nemo_gym import package_environments
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile


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
    return package_environments.pins_text("bfcl", "bfcl.txt")


def ensure_python(report: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Path:
    """The interpreter, its environment installed first if it is not there.

    Raises `nemo_gym.package_environments.NoEnvironmentError`.
    """
    return package_environments.ensure_python(
        recipe(),
        report,
        environ,
        what="bfcl: the package bfcl-eval",
        command="gym eval prepare --benchmark bfcl",
    )
