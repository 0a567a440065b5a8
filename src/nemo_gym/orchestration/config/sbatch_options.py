"""The ``#SBATCH`` lines of a benchmark's job, from a ``compute`` entry; pure.

Options of several places become one set: an option with two values is refused, and every value is checked,
since such a line cannot be quoted (see `nemo_slurm.scripts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.drain_lead import LONGEST_LEAD, drain_lead
from nemo_gym.orchestration.config.schema import SlurmCompute
from nemo_runs.durations import parse_duration
from nemo_slurm import scripts
from nemo_slurm.errors import UnusableValueError


def sbatch_options(cluster: str, compute: SlurmCompute, benchmark: str, job_dir: Path) -> list[str]:
    """The options of one job, each one word (``--key=value``), in the order of the lines.

    Raises `ConfigError` naming the dotted path of a value that cannot be written on such a line.
    """
    where = f"compute.{cluster}"
    try:
        own = scripts.options(_of_the_job(benchmark, job_dir), where="the job's folder")
        parts: list[tuple[str, dict[str, scripts.OptionValue]]] = [
            (where, {"account": compute.account, **_given({"time": compute.walltime})}),
            (f"{where}.extra_args", dict(compute.extra_args)),
            *_pools(f"{where}.node_pools", compute),
            (where, {"nodes": compute.nodes}),
        ]
        for path, values in parts:
            scripts.options(values, where=path)
        chosen = scripts.merged(*parts)
        given = scripts.options(_ordered(chosen), where=where)
        return [*own, *given, *scripts.options(_defaults(compute, chosen), where=where)]
    except UnusableValueError as error:
        raise ConfigError(f"{error}.") from error


def drain_seconds(compute: SlurmCompute) -> int:
    """How long before its time limit a job gets the signal; the scheduler may be up to a minute early."""
    if compute.drain_seconds is not None:
        return compute.drain_seconds
    if compute.walltime is None:
        return int(LONGEST_LEAD)
    return max(1, int(drain_lead(parse_duration(compute.walltime, where="walltime"))))


def _of_the_job(benchmark: str, job_dir: Path) -> dict[str, scripts.OptionValue]:
    """Name and folder. A folder that is not plainly one word is left to the caller of sbatch inside it."""
    values: dict[str, scripts.OptionValue] = {"job-name": f"gym-{benchmark}"}
    try:
        scripts.options({"chdir": str(job_dir)}, where="")
    except UnusableValueError:
        return values
    return {**values, "chdir": str(job_dir)}


def _pools(where: str, compute: SlurmCompute) -> Iterator[tuple[str, dict[str, scripts.OptionValue]]]:
    for name, pool in compute.node_pools.items():
        sizes: dict[str, scripts.OptionValue] = {
            "partition": pool.partition,
            "ntasks-per-node": pool.ntasks_per_node,
            "gpus-per-node": pool.gpus_per_node or None,
        }
        yield f"{where}.{name}", _given(sizes)
        yield f"{where}.{name}.extra_args", dict(pool.extra_args)


def _given(values: dict[str, scripts.OptionValue]) -> dict[str, scripts.OptionValue]:
    return {key: value for key, value in values.items() if value is not None}


def _ordered(chosen: dict[str, scripts.OptionValue]) -> dict[str, scripts.OptionValue]:
    """The order in which a person looks for them; what is left keeps its own."""
    first = ("account", "partition", "time", "nodes", "ntasks-per-node", "gpus-per-node")
    return {key: chosen[key] for key in [*first, *chosen] if key in chosen}


def _defaults(
    compute: SlurmCompute, chosen: dict[str, scripts.OptionValue]
) -> dict[str, scripts.OptionValue]:
    """What is set unless ``extra_args`` says otherwise.

    A requeued job is tolerated, but a chain continues by itself; output is appended to, since a second run
    of one job would cut off what the first one said.
    """
    values: dict[str, scripts.OptionValue] = {"signal": f"B:USR1@{drain_seconds(compute)}"}
    if not {"requeue", "no-requeue"} & chosen.keys():
        values["no-requeue"] = True
    values["open-mode"] = "append"
    return {key: value for key, value in values.items() if key not in chosen}
