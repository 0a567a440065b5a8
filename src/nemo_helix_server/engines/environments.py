"""Environments in the user's cache: ``<cache>/engines/<name>-<digest>/``.

A virtual environment cannot be moved, so it is not built aside and renamed: each installation builds in a
folder
of its own (``venv-<random>``), and ``complete.json``, written last and by rename, names the one that is
whole. An
installer that was killed, or a pip that outlived it, leaves a folder that nothing names.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nemo_helix_server.engines import catalogue
from nemo_helix_server.engines.catalogue import Device, EngineRecipe
from nemo_helix_server.errors import ServerError
from nemo_runs import file_locks, homes
from nemo_runs.durable.files import replace_file

COMPLETE = "complete.json"
LOG = "install.log"


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
        return self.folder / "bin" / "python"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where environments are kept: ``$XDG_CACHE_HOME/nhx`` or ``~/.cache/nhx``."""
    return homes.base("XDG_CACHE_HOME", ".cache", environ) / "nhx"


def home_of(recipe: EngineRecipe, device: Device, cache: Path) -> Path:
    """The folder of this engine's environments with these pins."""
    return cache / "engines" / f"{recipe.name}-{catalogue.digest(recipe, device)}"


def find(recipe: EngineRecipe, device: Device, cache: Path) -> Environment | None:
    """The whole environment of an engine, or ``None``. Cheap: one small file is read."""
    home = home_of(recipe, device, cache)
    try:
        name = json.loads((home / COMPLETE).read_text(encoding="utf-8"))["venv"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found = Environment(recipe.name, device, home / str(name))
    return found if os.access(found.python, os.X_OK) else None


def install(
    recipe: EngineRecipe, device: Device, cache: Path, *, report: Callable[[str], None], again: bool = False
) -> Environment:
    """Make the environment of an engine unless it is there. Of two that ask at once, one makes and one
    waits."""
    home = home_of(recipe, device, cache)
    home.mkdir(parents=True, exist_ok=True)
    with _lock(home, report):
        found = find(recipe, device, cache)
        if found is not None and not again:
            return found
        _remove_leftovers(home, kept=found)
        folder = home / f"venv-{secrets.token_hex(4)}"
        started = time.monotonic()
        report(f"installing engine '{recipe.name}' for {device} into {folder}")
        _build(recipe, device, folder, home / LOG, report)
        record = {
            "engine": recipe.name,
            "device": device,
            "venv": folder.name,
            "python": sys.version.split()[0],
        }
        replace_file(home / COMPLETE, json.dumps(record, indent=2).encode() + b"\n")
        report(f"engine '{recipe.name}' is installed ({time.monotonic() - started:.0f} s)")
        return Environment(recipe.name, device, folder)


@contextmanager
def _lock(home: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Held by the installer alone: the descriptor is not passed on to pip, so a killed installer frees it."""
    with (home / ".lock").open("w") as stream:
        if not file_locks.take(stream.fileno(), wait=False):
            report(f"waiting for another installation in {home}")
            file_locks.take(stream.fileno())
        yield


def _remove_leftovers(home: Path, kept: Environment | None) -> None:
    for folder in home.glob("venv-*"):
        if kept is None or folder != kept.folder:
            shutil.rmtree(folder, ignore_errors=True)


def _build(
    recipe: EngineRecipe, device: Device, folder: Path, log: Path, report: Callable[[str], None]
) -> None:
    log.write_text("", encoding="utf-8")
    _call([sys.executable, "-m", "venv", str(folder)], log)
    for file in recipe.pins[device]:
        try:
            _pip(folder, file, log)
        except InstallError:
            if file != "torch-cpu.txt":
                raise
            report(
                "no CPU build of torch can be had here: its general build is installed, which is much larger"
            )
            _pip(folder, "torch-cuda.txt", log)


def _pip(folder: Path, file: str, log: Path) -> None:
    pins = folder / file
    pins.write_text(catalogue.pins_text(file), encoding="utf-8")
    argv = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
    ]
    _call([*argv, "--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(pins)], log)


def _call(argv: list[str], log: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with log.open("ab") as stream:
        stream.write(f"$ {' '.join(argv)}\n".encode())
        stream.flush()
        done = subprocess.run(argv, stdout=stream, stderr=subprocess.STDOUT, env=environ, check=False)
    if done.returncode != 0:
        raise InstallError(f"the installation failed: {_last_error(log)} (all of it is in {log})")


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no output"])[-1].removeprefix("ERROR: ").rstrip(".")
