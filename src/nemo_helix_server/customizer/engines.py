"""The engines as customization needs them: whether one is installed, and how its processes are started."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.engines import catalogue, environments, machine, sources
from nemo_helix_server.errors import ServerError, StateConflictError
from nemo_helix_server.settings import EnginesSettings
from nemo_runs.leases import machine_leases


@functools.cache
def this_machine() -> TrainingMachine:
    """What trains here; asked of the driver once."""
    device = machine.found_device()
    return TrainingMachine(device, len(machine_leases.found_devices(os.environ)) if device == "cuda" else 0)


@dataclass(frozen=True, slots=True)
class Engines:
    """Finds engines, by settings or where `nemo engines install` put them."""

    settings: EnginesSettings
    machine: TrainingMachine
    cache: Path

    def require(self, name: str) -> EngineFacts:
        """An engine that can be started; raises `StateConflictError` with the command that helps."""
        given, environment = getattr(self.settings, name).python, self._environment()
        if given is not None:
            if not os.access(given, os.X_OK):
                raise StateConflictError(
                    f"engine {name} cannot be started: the setting engines.{name}.python names {given}, "
                    "which is not a program"
                )
            return EngineFacts(name, str(given), environment)
        if name not in catalogue.RECIPES:
            raise StateConflictError(
                f"engine {name} has no interpreter on the service's machine: name one by the setting "
                f"engines.{name}.python"
            )
        found = self._installed(name)
        if found is None:
            raise StateConflictError(
                f"engine {name} is not installed on the service's machine: run `nemo engines install {name}`"
            )
        return EngineFacts(name, str(found.python), environment, digest=found.folder.parent.name)

    def state(self, name: str) -> dict[str, Any]:
        """Whether an engine can be used, as it is answered."""
        found: dict[str, Any] = {"name": name, "installed": False, "device": self.machine.device}
        try:
            facts = self.require(name)
        except ServerError as error:
            return {**found, "problem": error.detail}
        return {**found, "installed": True, "python": facts.python}

    def _installed(self, name: str) -> environments.Environment | None:
        return environments.find(catalogue.RECIPES[name], self.machine.device, self.cache)

    def _environment(self) -> Mapping[str, str]:
        """With as many threads as the service's own OMP_NUM_THREADS says; by default one."""
        inherited = {name: os.environ[name] for name in ("OMP_NUM_THREADS",) if name in os.environ}
        return sources.engine_environment(self.cache, inherited)
