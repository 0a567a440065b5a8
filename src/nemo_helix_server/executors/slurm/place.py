"""What there is on a cluster for a run, as its profile says it: nobody looks there before the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.engines import sources
from nemo_helix_server.executors.base import EngineFinder, NeverPossibleError
from nemo_helix_server.executors.options import UnknownPlace
from nemo_helix_server.executors.slurm.settings import SlurmSettings

_MOST_NODES = 65_536
"""What a step may ask for; whether the cluster has so many, its scheduler says."""


@dataclass(frozen=True, slots=True)
class ClusterPlace(UnknownPlace):
    """Of programs and environments there nobody knows here; the node says what a job has run in."""

    settings: SlurmSettings
    code: PurePosixPath
    """The folder of our sources there."""

    def machine(self) -> TrainingMachine | None:
        """See the protocol; how many GPUs a node has, the scheduler says when a step asks for more."""
        return TrainingMachine(self.settings.device, None, nodes=_MOST_NODES)

    def engine(self, name: str, here: EngineFinder) -> EngineFacts:
        """See the protocol: the profile's interpreter, or else the service's own where it submits itself.

        Of the service's machine nothing but that interpreter is named: nodes have no folders of it.
        """
        python, digest = self.settings.engines.get(name), None
        if python is None and self.settings.host is not None:
            raise NeverPossibleError(
                f"the engine {name} has no interpreter on {self.settings.host}: name one by the key "
                f"engines.{name} of the execution profile"
            )
        if python is None and self.settings.container is not None:
            raise NeverPossibleError(
                f"the engine {name} has no interpreter in the containers of the execution profile: name one "
                f"by its key engines.{name}"
            )
        if python is None:
            found = here(name)
            python, digest = found.python, found.digest
        return EngineFacts(name, python, sources.engine_variables(str(self.code)), digest)

    def python(self) -> str | None:
        """See the protocol: the cluster has our sources for training, and no others."""
        raise NeverPossibleError(
            "steps that do not train run at the service, and their execution profile leads to a cluster; "
            "give cpu/default the backend subprocess in jobs.executors, and the cluster's profile another "
            "name"
        )
