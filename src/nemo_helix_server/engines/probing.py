"""Whether an engine works here: its modules are loaded in a process of its own, and what it says is
reported."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nemo_helix_server.engines import environments, sources
from nemo_helix_server.engines.catalogue import Device, EngineRecipe

TIMEOUT = 300.0
"""Seconds for loading the libraries: 5 on an idle machine, 20 on a busy one, more from a cold network
disk."""

_PROGRAM = """
import importlib, importlib.metadata, json, sys
modules, packages = json.loads(sys.argv[1]), json.loads(sys.argv[2])
found = {"versions": {}, "device": "cpu", "gpus": [], "problem": None}
for name in packages:
    try:
        found["versions"][name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found["problem"] = found["problem"] or f"the package {name} is not in this environment"
for name in modules if found["problem"] is None else ():
    try:
        importlib.import_module(name)
    except BaseException as error:
        found["problem"] = f"import {name}: {type(error).__name__}: {error}"
        break
else:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["device"] = "cuda"
        found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print("\\n" + json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What is known about one engine on this machine."""

    engine: str
    summary: str
    wanted: Device
    """What this machine has."""
    folder: str | None
    """The environment, ``None`` when it is not installed."""
    usable: bool
    versions: dict[str, str] = field(default_factory=dict)
    device: str | None = None
    """What the library itself sees."""
    gpus: tuple[str, ...] = ()
    problem: str | None = None
    """Why it cannot be used, or what is worth knowing."""

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        return asdict(self)


def quick_report(recipe: EngineRecipe, device: Device, cache: Path) -> EngineReport:
    """What can be said without starting anything."""
    found = environments.find(recipe, device, cache)
    if found is None:
        problem = f"not installed: run `nemo engines install {recipe.name}`"
        return EngineReport(recipe.name, recipe.summary, device, None, usable=False, problem=problem)
    return EngineReport(recipe.name, recipe.summary, device, str(found.folder), usable=True)


def examine(
    recipe: EngineRecipe, device: Device, cache: Path, environ: Mapping[str, str] = os.environ
) -> EngineReport:
    """Load the engine's libraries in a child process."""
    found = environments.find(recipe, device, cache)
    if found is None:
        return quick_report(recipe, device, cache)
    argv = [str(found.python), "-c", _PROGRAM, json.dumps(recipe.imports), json.dumps(recipe.packages)]
    environment = sources.engine_environment(cache, environ)
    said = _run(argv, environment)
    problem = said["problem"]
    trains = "torch" in recipe.packages
    if problem is None and trains and device == "cuda" and said["device"] != "cuda":
        problem = "this machine has an NVIDIA GPU, but torch does not see it: the driver may be too old"
    return EngineReport(
        engine=recipe.name,
        summary=recipe.summary,
        wanted=device,
        folder=str(found.folder),
        usable=said["problem"] is None,
        versions=said["versions"],
        device=said["device"] if trains else None,
        gpus=tuple(said["gpus"]),
        problem=problem,
    )


def _run(argv: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
    empty: dict[str, Any] = {"versions": {}, "device": None, "gpus": []}
    try:
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {**empty, "problem": f"its libraries did not load within {TIMEOUT:.0f} s"}
    except OSError as error:
        return {**empty, "problem": f"its interpreter cannot be started: {error.strerror}"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.rstrip().rsplit("\n", 1)[-1])
    except ValueError:
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        return {**empty, "problem": f"its interpreter ended with {done.returncode}: {last}"}
    return answer
