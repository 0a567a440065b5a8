"""Executors by the type of a ``compute`` entry; each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.executor_kinds import LOCAL, SLURM, TYPES

if TYPE_CHECKING:
    from nemo_gym.orchestration.executors.base import JobExecutor
    from nemo_slurm.hosts import Host


def executor_for(type_name: str, host: Host | None = None) -> JobExecutor:
    """The executor of a compute type, on a host (this machine unless given).

    Raises `ConfigError` for an unknown type.
    """
    if type_name == LOCAL:
        from nemo_gym.orchestration.executors.local import LocalExecutor

        return LocalExecutor()
    if type_name == SLURM:
        from nemo_gym.orchestration.executors.slurm import SlurmExecutor
        from nemo_slurm.cluster import Cluster
        from nemo_slurm.hosts import LocalHost

        return SlurmExecutor(Cluster(host or LocalHost()))
    raise ConfigError(f"compute: there is no executor {type_name!r}; known are {', '.join(TYPES)}")


def refuse_unusable(kind: str) -> None:
    """Raise `nemo_gym.errors.GymError` when what an executor needs of this machine cannot be used."""
    if kind == LOCAL:
        from nemo_gym.orchestration.executors.local_numbers import usable_claims

        usable_claims()
