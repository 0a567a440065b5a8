"""`nemo customization <backend> --sweep`: a job for each combination of values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import click

from nemo_helix_plugin import errors
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.commands.customization import specs
from nemo_helix_plugin.cli.output import documents
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.customization import sweeps
from nemo_helix_plugin.jobs import names


def sweep_name(name: str | None) -> str:
    """The name of a sweep, checked, or a new one."""
    if name is not None:
        problem = names.problem_with(name, longest=names.LONGEST_JOB - len(f"-{sweeps.MOST_JOBS}"))
        if problem:
            raise click.UsageError(f"--sweep-name {name}: {problem} for a sweep.")
    return name or sweeps.new_name()


def planned(
    backend: str, spec: Mapping[str, Any], words: tuple[str, ...], name: str
) -> list[sweeps.SweepJob]:
    """The jobs of a sweep, each checked as far as it can be here, before anything is sent."""
    try:
        axes = [sweeps.axis(word, lambda text: specs.scalar(text, "--sweep")) for word in words]
        found = sweeps.jobs_of(spec, axes, name)
    except ValueError as error:
        raise click.UsageError(f"--sweep {error}.") from None
    for job in found:
        specs.checked(backend, job.spec)
    return found


def submit(call: CommandContext, backend: str, jobs: list[sweeps.SweepJob], asked: Mapping[str, Any]) -> int:
    """Submit every job of a sweep; ``asked`` is what all of them have.

    The jobs are named, and a job that is there already with the same spec is not made twice: the same command
    with the same ``--sweep-name`` goes on where it was broken off.
    """
    operations = [_operation(backend, job, asked) for job in jobs]
    if [one for one in operations if call.prints_code(one)]:
        return errors.EXIT_DONE
    name = jobs[0].custom_fields[sweeps.NAME_FIELD]
    made: list[Mapping[str, Any]] = []
    try:
        for operation in operations:
            made.append(record_of(call.ask(operation)))
    except (errors.NemoError, KeyboardInterrupt):
        if made:
            call.report(
                f"{len(made)} of {len(jobs)} jobs of sweep '{name}' were made before this; the same command "
                f"with --sweep-name {name} makes the rest."
            )
        raise
    click.echo(documents.json_text(made))
    if call.flags.output_format != "json":
        place = f"--workspace {call.workspace}"
        call.report(f"created {len(made)} jobs of sweep '{name}'; `nemo sweeps get {name} {place}` compares")
        call.report(f"them, and `nemo sweeps plot {name} {place}` draws their losses on one axis.")
    return errors.EXIT_DONE


def _operation(backend: str, job: sweeps.SweepJob, asked: Mapping[str, Any]) -> Operation:
    whole = {**asked, "spec": job.spec, "name": job.name, "custom_fields": job.custom_fields}
    key = hashlib.sha256(json.dumps([backend, whole], sort_keys=True).encode()).hexdigest()
    return Operation(f"customization.{backend}.jobs.create", {**whole, "idempotency_key": key})
