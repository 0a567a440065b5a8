"""What there is on a cluster for a run, as its profile says it: nobody looks there before the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.executors.base import NeverPossibleError
from nemo_helix_server.executors.slurm.settings import SlurmSettings


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """See `nemo_helix_server.executors.base.RunPlace`."""

    settings: SlurmSettings

    def environment(self) -> Mapping[str, str]:
        """See the protocol: a job finds the environment of its node, which nobody knows here."""
        return {}

    def machine(self) -> TrainingMachine | None:
        """See the protocol; how many GPUs a node has, the scheduler says when a step asks for more."""
        return TrainingMachine(self.settings.device, 0)

    def engine(self, name: str) -> EngineFacts | None:
        """See the protocol."""
        python = self.settings.engines.get(name)
        if python is not None:
            return EngineFacts(name, python, {})
        if self.settings.host is None:
            return None  # the service's own environments are on this machine, and so perhaps on the nodes
        raise NeverPossibleError(
            f"the engine {name} has no interpreter on {self.settings.host}: name one by the key "
            f"engines.{name} of the execution profile"
        )

    def python(self) -> str | None:
        """See the protocol."""
        return None

    def has_program(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:  # noqa: ARG002 - the protocol's
        """See the protocol: it is seen when it runs."""
        return True

    def environment_digest(
        self,
        argv: tuple[str, ...],  # noqa: ARG002 - the protocol's
        environment: Mapping[str, str],  # noqa: ARG002 - the protocol's
    ) -> str | None:
        """See the protocol: the node says it."""
        return None
