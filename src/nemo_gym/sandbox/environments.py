"""Named environments: sets of pinned packages for the Python of a sandbox, installed once into the cache."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePath

from nemo_gym import package_environments
from nemo_gym.errors import ConfigError
from nemo_gym.sandbox.config_files import PINS_SUFFIX, is_file, read_pins
from nemo_runs.environments import installing
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile
from nemo_runs.suggestions import suggestion

_FOLDER = "sandbox"
_CONTINUED = re.compile(r"\\\s*\n")
_PINNED = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*(==[^=]|@ )")
_HASH = "--hash=sha256:"


@dataclass(frozen=True, slots=True)
class SandboxEnvironment:
    """One set of packages."""

    name: str
    pins: str
    """A requirements file: a version and hashes for each package, dependencies included."""

    @property
    def recipe(self) -> EnvironmentRecipe:
        """How it is made; equal pins on equal machines are one environment, whatever its name is."""
        folder = re.sub(r"[^A-Za-z0-9_-]", "_", self.name.removesuffix(PINS_SUFFIX))
        pins = (PinsFile("pins.txt", self.pins),)
        return EnvironmentRecipe(name=f"sandbox-{folder}", device="cpu", pins=pins, noun="the environment")

    def find_python(self, environ: Mapping[str, str] = os.environ) -> Path | None:
        """Its interpreter, where it is installed."""
        found = installing.find(self.recipe, installing.cache_folder(environ))
        return None if found is None else installing.python_of(found)

    def ensure_python(self, report: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Path:
        """Its interpreter, installed first if it is not there.

        Raises `nemo_gym.package_environments.NoEnvironmentError`.
        """
        return package_environments.ensure_python(
            self.recipe,
            report,
            environ,
            what=f"sandbox: the environment '{self.name}'",
            command="gym eval prepare",
        )


def named(name: str, pins: str | None = None) -> SandboxEnvironment:
    """The environment of that name, or of that file.

    ``pins`` is the text of the file where it was read before. Raises `ConfigError`, a phrase.
    """
    if pins is None and is_file(name):
        pins = read_pins(Path(name))
    if pins is not None:
        if problem := _problem(pins):
            raise ConfigError(f"{name}: {problem}")
        return SandboxEnvironment(PurePath(name).name, pins)
    known = shipped()
    if name not in known:
        hint = suggestion(name, known)
        raise ConfigError(
            f"there is no environment {name!r}{hint}; known are {', '.join(known)}; a file of your own is "
            f"named with its path, as in ./{name}{PINS_SUFFIX}"
        )
    return SandboxEnvironment(name, package_environments.pins_text(_FOLDER, f"{name}{PINS_SUFFIX}"))


def shipped() -> list[str]:
    """The names of the environments that `gym` brings."""
    files = (resources.files("nemo_gym") / _FOLDER / "pins").iterdir()
    return sorted(file.name.removesuffix(PINS_SUFFIX) for file in files if file.name.endswith(PINS_SUFFIX))


def _problem(pins: str) -> str | None:
    """Why a text is not a file of pins."""
    lines = [line.split(" #")[0].strip() for line in _CONTINUED.sub(" ", pins).splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        return "no package is named in it"
    wrong = next((line for line in lines if not _PINNED.match(line) or _HASH not in line), None)
    if wrong is None:
        return None
    return (
        f"{wrong[:60]!r} has no version with a hash, as in `numpy==2.4.6 {_HASH}…`; "
        "`pip-compile --generate-hashes` writes such a file, dependencies included"
    )
