"""Environments in the user's cache: ``<cache>/engines/<name>-<digest>/``.

A virtual environment cannot be moved, so it is not built aside and renamed: each installation builds in a
folder of its own (``venv-<random>``), and ``complete.json``, written last and by rename, names the one that
is whole. An installer that was killed, or a pip that outlived it, leaves a folder that nothing names.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nemo_runs import file_locks, homes
from nemo_runs.durable.files import replace_file
from nemo_runs.errors import RunsError

COMPLETE = "complete.json"
LOG = "install.log"
RECIPE = 1
"""Raised when environments are made in another way, so that older ones are not taken for new ones."""


class NotInstalledError(RunsError):
    """An environment could not be made; the message names the log."""


@dataclass(frozen=True, slots=True)
class PinsFile:
    """A requirements file with hashes, installed as it is, without dependencies."""

    name: str
    text: str
    sources: bool = False
    """Whether its packages come without wheels, and are built with the setuptools of an earlier file."""
    otherwise: PinsFile | None = None
    """What is installed where this one cannot be had."""
    remark: str = ""
    """What is reported then."""


@dataclass(frozen=True, slots=True)
class EnvironmentRecipe:
    """How one environment is made."""

    name: str
    device: str
    """``cpu`` or ``cuda``: what the packages are built for."""
    pins: tuple[PinsFile, ...]
    noun: str = "engine"
    """What it is called in reports."""

    @property
    def digest(self) -> str:
        """What distinguishes environments: pins, Python and machine. Equal digests mean equal packages."""
        parts = [
            str(RECIPE),
            self.device,
            platform.machine(),
            ".".join(map(str, sys.version_info[:3])),
            *(file.text for file in self.pins),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def home(self, cache: Path) -> Path:
        """The folder of the environments with these pins."""
        return cache / "engines" / f"{self.name}-{self.digest}"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where environments are kept: ``$XDG_CACHE_HOME/nhx`` or ``~/.cache/nhx``."""
    return homes.base("XDG_CACHE_HOME", ".cache", environ) / "nhx"


def find(recipe: EnvironmentRecipe, cache: Path) -> Path | None:
    """The folder of the whole environment, or ``None``. Cheap: one small file is read."""
    home = recipe.home(cache)
    try:
        name = json.loads((home / COMPLETE).read_text(encoding="utf-8"))["venv"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found = home / str(name)
    return found if os.access(python_of(found), os.X_OK) else None


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / "bin" / "python"


def install(
    recipe: EnvironmentRecipe, cache: Path, *, report: Callable[[str], None], again: bool = False
) -> Path:
    """Make an environment unless it is there. Of two that ask at once, one makes and one waits.

    Raises `NotInstalledError`.
    """
    home = recipe.home(cache)
    home.mkdir(parents=True, exist_ok=True)
    with _lock(home, report):
        found = find(recipe, cache)
        if found is not None and not again:
            return found
        _remove_leftovers(home, kept=found)
        folder = home / f"venv-{secrets.token_hex(4)}"
        started = time.monotonic()
        report(f"installing {recipe.noun} '{recipe.name}' for {recipe.device} into {folder}")
        _build(recipe, folder, home / LOG, report)
        record = {
            "engine": recipe.name,
            "device": recipe.device,
            "venv": folder.name,
            "python": sys.version.split()[0],
        }
        replace_file(home / COMPLETE, json.dumps(record, indent=2).encode() + b"\n")
        seconds = time.monotonic() - started
        report(f"{recipe.noun} '{recipe.name}' is installed ({seconds:.0f} s)")
        return folder


@contextmanager
def _lock(home: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Held by the installer alone: the descriptor is not passed on to pip, so a killed installer frees it."""
    with (home / ".lock").open("w") as stream:
        if not file_locks.take(stream.fileno(), wait=False):
            report(f"waiting for another installation in {home}")
            file_locks.take(stream.fileno())
        yield


def _remove_leftovers(home: Path, kept: Path | None) -> None:
    for folder in home.glob("venv-*"):
        if kept is None or folder != kept:
            shutil.rmtree(folder, ignore_errors=True)


def _build(recipe: EnvironmentRecipe, folder: Path, log: Path, report: Callable[[str], None]) -> None:
    log.write_text("", encoding="utf-8")
    _call([sys.executable, "-m", "venv", str(folder)], log)
    for file in recipe.pins:
        try:
            _pip(folder, file, log)
        except NotInstalledError:
            if file.otherwise is None:
                raise
            report(file.remark)
            _pip(folder, file.otherwise, log)


def _pip(folder: Path, file: PinsFile, log: Path) -> None:
    pins = folder / file.name
    pins.write_text(file.text, encoding="utf-8")
    argv = [str(python_of(folder)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    kind = "--no-build-isolation" if file.sources else "--only-binary=:all:"
    _call([*argv, "--require-hashes", "--no-deps", kind, "-r", str(pins)], log)


def _call(argv: list[str], log: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with log.open("ab") as stream:
        stream.write(f"$ {' '.join(argv)}\n".encode())
        stream.flush()
        done = subprocess.run(argv, stdout=stream, stderr=subprocess.STDOUT, env=environ, check=False)
    if done.returncode != 0:
        raise NotInstalledError(f"the installation failed: {_last_error(log)} (all of it is in {log})")


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no output"])[-1].removeprefix("ERROR: ").rstrip(".")
