"""The interpreter in which models are loaded: that of a training engine. Nothing of it is imported here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.engines import catalogue, environments, machine, sources
from nemo_models.errors import ModelsError

_ENGINES = ("trl", "unsloth")
"""Engines whose environment has all that is needed, the better known first."""


@dataclass(frozen=True, slots=True)
class ModelEngine:
    """An interpreter with the libraries of an engine."""

    name: str
    python: Path
    device: str
    """``cpu`` or ``cuda``: what its libraries are built for."""
    cache: Path

    def argv(self, module: str, *arguments: str) -> list[str]:
        """The command that runs a module of ours there."""
        return [str(self.python), "-P", "-m", module, *arguments]

    def variables(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment variables of its processes."""
        return {**sources.engine_environment(self.cache, os.environ), **(extra or {})}

    def answer(
        self, module: str, *arguments: str, given: Any = None, extra: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Run a module to its end with a JSON document on stdin; the JSON of its last line.

        What it says on stderr meanwhile is passed on. Raises `ModelsError` with its last line where it fails.
        """
        said = ""
        with subprocess.Popen(
            self.argv(module, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.variables(extra),
        ) as process:
            try:
                out, said = process.communicate(json.dumps(given))
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            raise ModelsError(last_line(said) or f"the program {module} ended with {process.returncode}")
        try:
            found: dict[str, Any] = json.loads(out.rstrip().rpartition("\n")[2] or "{}")
        except ValueError as error:
            raise ModelsError(f"the program {module} has not said what it did") from error
        return found


def find() -> ModelEngine:
    """The engine that is installed here; raises `ModelsError`, which says how to install one."""
    cache, device = environments.cache_folder(), machine.found_device()
    for name in _ENGINES:
        found = environments.find(catalogue.recipe(name), device, cache)
        if found is not None:
            return ModelEngine(name, found.python, device, cache)
    raise ModelsError(
        f"no engine that loads models is installed here: `nemo engines install {_ENGINES[0]}` installs one"
    )


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:2000] if lines else ""
