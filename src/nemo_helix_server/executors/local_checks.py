"""What of the service's own machine would keep its steps from running: devices, slots, disk, engines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.engines import catalogue, environments
from nemo_helix_server.engines.catalogue import Device
from nemo_helix_server.settings import EnginesSettings
from nemo_runs.counts import counted
from nemo_runs.durable import disk
from nemo_runs.errors import RunsError
from nemo_runs.findings import Finding, ok, problem, unknown, warning
from nemo_runs.leases import machine_leases
from nemo_runs.sizes import size_in_words

_NO_ENGINE = frozenset({"trackers"})
"""Environments that are installed as engines are, and train nothing."""


@dataclass(frozen=True, slots=True)
class MachineChecks:
    """Looks at the machine as steps would find it."""

    data_dir: Path
    minimum_free_bytes: int
    pool: machine_leases.Pool
    engines: EnginesSettings
    device: Device
    """What engines are installed for."""
    cache: Path
    """Where `nemo engines install` puts them."""

    def findings(self, provider: Provider) -> Sequence[Finding]:
        """What is so, and what to change."""
        return [*self._devices(provider), self._slots(), self._disk(), *self._engines()]

    def _devices(self, provider: Provider) -> Iterator[Finding]:
        count = len(self.pool.devices)
        if provider == "gpu_distributed":
            yield warning("nodes", "this machine is one node: steps that ask for more are refused")
        if count:
            yield ok("devices", f"{counted(count, 'GPU')} may be leased")
        elif provider in {"gpu", "gpu_distributed"}:
            text = (
                "no GPU is found, so steps that ask for one are refused; fix the driver (`nvidia-smi -L` "
                "names what it finds), name devices in jobs.leases.devices, or use a profile of cpu."
            )
            yield problem("devices", text)
        else:
            yield ok("devices", "no GPU is found; training runs on the processor")

    def _slots(self) -> Finding:
        try:
            held = sum(holder.slots for holder in self.pool.holders())
        except (RunsError, OSError) as error:
            return problem("slots", f"the book of leases in {self.pool.folder} cannot be used: {error}.")
        steps = counted(self.pool.slots, "step")
        return ok("slots", f"{steps} without GPU may run at once; {held} of these places are held now")

    def _disk(self) -> Finding:
        try:
            os.statvfs(self.data_dir)
        except OSError as error:
            return problem("disk", f"{self.data_dir} cannot be used: {error.strerror or error}.")
        free = disk.free_bytes(self.data_dir)
        if free is None:
            return unknown("disk", f"{self.data_dir} does not say how much is free")
        shown = f"{size_in_words(free)} are free at {self.data_dir}"
        if free < self.minimum_free_bytes:
            least = size_in_words(self.minimum_free_bytes)
            return problem("disk", f"{shown}, and starts need {least} (jobs.storage.minimum_free_bytes).")
        return ok("disk", shown)

    def _engines(self) -> Iterator[Finding]:
        for name in type(self.engines).model_fields:
            if name not in _NO_ENGINE:
                yield self._engine(name)

    def _engine(self, name: str) -> Finding:
        about, given = f"engine {name}", getattr(self.engines, name).python
        if given is not None:
            if os.access(given, os.X_OK):
                return ok(about, str(given))
            return problem(about, f"engines.{name}.python: {given} is not a program.")
        recipe = catalogue.RECIPES.get(name)
        if recipe is None:
            return warning(about, f"it has no interpreter: name one in engines.{name}.python")
        found = environments.find(recipe, self.device, self.cache)
        if found is None:
            return warning(about, f"it is not installed: `nemo engines install {name}`")
        return ok(about, str(found.python))
