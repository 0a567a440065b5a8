"""The environments of engines, made and found as `nemo_runs.environments.installing` does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nemo_helix_server.engines import catalogue
from nemo_helix_server.engines.catalogue import Device, EngineRecipe
from nemo_helix_server.errors import ServerError
from nemo_runs.environments import installing
from nemo_runs.environments.installing import COMPLETE, cache_folder

__all__ = ["COMPLETE", "Environment", "InstallError", "cache_folder", "find", "install"]


class InstallError(ServerError):
    """An environment could not be made; the message names the log."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A whole environment."""

    engine: str
    device: Device
    folder: Path
    """The virtual environment."""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return installing.python_of(self.folder)


def find(recipe: EngineRecipe, device: Device, cache: Path) -> Environment | None:
    """The whole environment of an engine, or ``None``. Cheap: one small file is read."""
    folder = installing.find(catalogue.environment(recipe, device), cache)
    return None if folder is None else Environment(recipe.name, device, folder)


def install(
    recipe: EngineRecipe, device: Device, cache: Path, *, report: Callable[[str], None], again: bool = False
) -> Environment:
    """Make the environment of an engine unless it is there. Of two that ask at once, one makes and one
    waits."""
    try:
        folder = installing.install(catalogue.environment(recipe, device), cache, report=report, again=again)
    except installing.NotInstalledError as error:
        raise InstallError(str(error)) from error
    return Environment(recipe.name, device, folder)
