"""Rules of a submit config that hold where the jobs run on a Slurm cluster; all pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import campaign, placement
from nemo_gym.orchestration.config.sbatch_options import sbatch_options
from nemo_gym.orchestration.config.schema import SlurmCompute, SubmitConfig

_ANYWHERE = Path("/job")


def problems(config: SubmitConfig) -> Iterator[str]:
    """What is wrong, each a sentence without its full stop."""
    compute = config.machine
    if isinstance(compute, SlurmCompute):
        yield from _pools(config, compute)
        yield from _containers(config, compute)
        yield from _lines(config, compute)


def warnings(config: SubmitConfig) -> Iterator[str]:
    """What is allowed but most likely not meant."""
    compute = config.machine
    if not isinstance(compute, SlurmCompute):
        return
    where = f"compute.{config.cluster}"
    if compute.nodes > 1 and not placement.uses_other_nodes(config):
        yield (
            f"{where}.node_pools: services and driver run on the first of the {compute.nodes} nodes; "
            "the others stay idle unless a command uses them."
        )
    if compute.walltime is None and "time" not in compute.extra_args:
        yield f"{where}.walltime: it is not set, so the partition's default limit ends each job."


def _pools(config: SubmitConfig, compute: SlurmCompute) -> Iterator[str]:
    where = f"compute.{config.cluster}.node_pools"
    if len({pool.gpus_per_node for pool in compute.node_pools.values()}) > 1:
        yield f"{where}: all pools are one allocation, so gpus_per_node must be the same in each"
    for name, service in config.services.items():
        path, pool = f"services.{name}.node_pool", service.node_pool
        if pool is None:
            continue
        if pool not in compute.node_pools:
            there = ", ".join(compute.node_pools) or "none"
            yield f"{path}: '{pool}' is not a pool of compute.{config.cluster}; there is {there}"


def _containers(config: SubmitConfig, compute: SlurmCompute) -> Iterator[str]:
    if config.driver.container is not None and config.driver.gym is None:
        yield "driver.gym: name the path of `gym` inside driver.container"
    owners: list[tuple[str, Any]] = [(f"services.{n}", service) for n, service in config.services.items()]
    owners.append(("driver", config.driver))
    for path, owner in owners:
        if owner.container is not None and compute.container_runtime == "none":
            yield f"{path}.container: compute.{config.cluster}.container_runtime is none; drop one of them"
        for mount in owner.mounts:
            source, *rest = mount.split(":")
            if "," in mount:
                yield f"{path}.mounts ('{mount}'): a comma would end the mount; use another path"
            elif owner.container is None and rest and rest != [source]:
                yield f"{path}.mounts ('{mount}'): it runs in no container; use the path {source} itself"


def _lines(config: SubmitConfig, compute: SlurmCompute) -> Iterator[str]:
    for benchmark in [share.name for share in campaign.shares(config)] or config.driver.benchmarks:
        try:
            sbatch_options(config.cluster, compute, benchmark, _ANYWHERE)
        except ConfigError as error:
            yield str(error).rstrip(".")
            return
