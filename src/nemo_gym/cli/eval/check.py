"""`gym eval check`: everything that can be known before a job is queued."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from nemo_gym.cli.options import json_option, overrides_argument


@click.command(short_help="Find out, without a job, what would keep a submission from running.")
@click.option("--config", "-c", "path", type=click.Path(path_type=Path), required=True, help="Submit file.")
@json_option
@overrides_argument
def check(path: Path, overrides: tuple[str, ...], as_json: bool) -> int:
    """Check a submit file against the machine and the cluster that it names: one connection, no job.

    Rows that are on this machine are read and checked as a run checks them, and graders and tools are loaded.
    Each line is ok, unknown (it cannot be seen from here), warning or problem, and says what to change. Ends
    with 1 when there is a problem. OVERRIDES are key=value (the key is there), +key=value or ++key=value.
    """
    from nemo_gym.composition import parse_overrides
    from nemo_gym.errors import EXIT_DONE, EXIT_ERROR
    from nemo_gym.orchestration.config.resolve import resolve
    from nemo_gym.orchestration.submit import check as checking
    from nemo_gym.orchestration.submit.destination import destination_of
    from nemo_gym.orchestration.submit.preflight import examine
    from nemo_runs.findings import as_line
    from nemo_slurm.ssh import host_of

    resolved = resolve(path, parse_overrides(overrides), cwd=Path.cwd())
    found = []
    for part in resolved.parts:
        of = f"{part.config.cluster}: " if len(resolved.parts) > 1 else ""
        with closing(host_of(getattr(part.config.machine, "hostname", None))) as host:
            its = examine(part, host, destination_of(host), os.environ, Path.cwd())
        found += [replace(finding, about=f"{of}{finding.about}") for finding in its]
    document = checking.to_json(found, resolved.source)
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for finding in found:
            click.echo(as_line(finding.verdict, finding.about, finding.text))
    return EXIT_DONE if document["ok"] else EXIT_ERROR
