"""Asking a machine and its cluster what `gym eval check` needs to know: one connection, no job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import campaign, rules
from nemo_gym.orchestration.config.resolve import ResolvedConfig
from nemo_gym.orchestration.config.sbatch_options import sbatch_options
from nemo_gym.orchestration.config.schema import ModelService, SlurmCompute, SubmitConfig
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun, load_runs
from nemo_gym.orchestration.submit import check, rows_check, sandbox_check
from nemo_gym.orchestration.submit.destination import Destination
from nemo_gym.orchestration.submit.references import with_references
from nemo_runs import findings
from nemo_runs.findings import Finding, FindingLevel
from nemo_slurm import facts as cluster_facts
from nemo_slurm.errors import NotReachableError, SlurmError
from nemo_slurm.hosts import Host

_NAMED = 8
"""Files that go along, by name; of more the number is said."""


def examine(
    resolved: ResolvedConfig, host: Host, destination: Destination, environ: Mapping[str, str], cwd: Path
) -> list[Finding]:
    """Everything that can be found out about a submission."""
    config = resolved.config
    found = [findings.warning("config", text) for text in rules.warnings(config)]
    compute = config.machine
    if isinstance(compute, SlurmCompute):
        try:
            facts = cluster_facts.gather(host)
        except SlurmError as error:
            return [*found, findings.problem("connection", str(error))]
        found += [findings.ok("connection", f"{host.label}, as {facts.user}")]
        found += [*check.judge(config, compute, facts), _accepted(config, compute, host)]
    return [*found, *_machine(resolved, host, destination, environ, cwd)]


def refuse_cheaply(config: SubmitConfig, host: Host) -> None:
    """Raise `ConfigError` for what one look at the cluster shows to be impossible.

    Raises `NotReachableError` when the scheduler does not answer: then nothing can be queued now.
    """
    compute = config.machine
    if isinstance(compute, SlurmCompute):
        try:
            facts = cluster_facts.gather(host)
        except NotReachableError as error:
            raise NotReachableError(f"{error}; nothing was submitted, try again when it answers") from error
        except SlurmError as error:
            raise ConfigError(str(error)) from error
        check.refuse(check.judge(config, compute, facts))


def _accepted(config: SubmitConfig, compute: SlurmCompute, host: Host) -> Finding:
    """What ``sbatch --test-only`` says to the head of the first job's script; all have the same."""
    benchmark = next(iter(config.driver.benchmarks))
    lines = sbatch_options(config.cluster, compute, benchmark, Path("/"))
    text = "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), ":", ""])
    return cluster_facts.accepts(host, text, about="sbatch --test-only", change=f"compute.{config.cluster}")


def _machine(
    resolved: ResolvedConfig, host: Host, destination: Destination, environ: Mapping[str, str], cwd: Path
) -> Iterator[Finding]:
    """Space, mounts, program, models and data on the side of the jobs."""
    config = resolved.config
    output = config.job.output_path
    runs: dict[str, BenchmarkRun] = {}
    try:
        folder, writable, free = cluster_facts.space(host, output)
        yield check.judge_space(output, folder, writable=writable, free=free)
        yield from _models(config, host)
    except SlurmError as error:
        yield findings.unknown("space", str(error))

    def mounts() -> str:
        destination.check(config, environ)
        return "all that is to be mounted is there"

    def program() -> str:
        path = destination.gym_program(config)
        if path is None:
            return "the first job installs driver.gym_install"
        brought = " (it is brought with the first submission)" if output in str(path) else ""
        return f"{path}{brought}"

    def data() -> str:
        runs.update(with_references(load_runs(resolved, cwd=cwd)))
        contained = config.driver.container is not None
        moved = destination.localized(runs, Path(output) / "gym-job", contained=contained)
        copied = [str(path) for run in moved.values() for path in run.inputs]
        more = f", and {len(copied) - _NAMED} more" if len(copied) > _NAMED else ""
        named = ", ".join(copied[:_NAMED])
        return f"found; copied from here: {named}{more}" if copied else "found where the jobs run"

    mounted = check.attempted("mounts", mounts)
    owners = [config.driver, *config.services.values()]
    if mounted.verdict is not FindingLevel.OK or any(owner.mounts for owner in owners):
        yield mounted
    yield check.attempted("program", program)
    yield check.attempted("data", data)
    elsewhere = host.label if destination.hostname else None
    on_nodes = isinstance(config.machine, SlurmCompute)
    yield from rows_check.look(runs, elsewhere=host.label if destination.hostname else None)
    yield from sandbox_check.look(runs, elsewhere=elsewhere, on_nodes=on_nodes)


def _models(config: SubmitConfig, host: Host) -> Iterator[Finding]:
    parts = [(f"{share.name}: ", share.config) for share in campaign.shares(config)] or [("", config)]
    services = {
        f"{of}services.{name}": service
        for of, part in parts
        for name, service in part.services.items()
        if isinstance(service, ModelService)
    }
    paths = [service.model for service in services.values() if service.model.startswith("/")]
    gone = cluster_facts.missing(host, paths)
    for name, service in services.items():
        if service.model in gone and service.container is None:
            yield findings.problem("model", f"{name}.model: there is no {service.model} on {host.label}.")
        elif service.model in gone:
            yield findings.unknown("model", f"{name}.model: {service.model} may be inside its container")
        elif not service.model.startswith("/"):
            text = f"{name}.model: {service.model} is a name, taken from the job's cache or downloaded"
            yield findings.unknown("model", text)
        else:
            yield findings.ok("model", service.model)
