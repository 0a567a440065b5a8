"""`nemo jobs create`: a new job, and waiting for its end where that is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import job_card
from nemo_helix_plugin.errors import EXIT_DONE

WAIT_SECONDS = 1200.0
CREATED = 201
"""The status of the answer when a job was made; otherwise it was there before."""

_JSON = inputs.JsonObject()


@click.command(short_help="Create a job.")
@click.argument("name", required=False)
@click.option("--source", metavar="TEXT", help="Which service or person submits; required in the end.")
@click.option(
    "--spec", type=_JSON, help="What the job is, in its submitter's own words; required in the end."
)
@click.option("--platform-spec", type=_JSON, help="The steps to execute; required in the end.")
@click.option("--description", metavar="TEXT", help="What people should read about it.")
@click.option("--project", metavar="NAME", help="A project it belongs to.")
@click.option("--output-location", metavar="FILESET", help="An existing fileset for what the job makes.")
@click.option("--ownership", type=_JSON, help="Whose it is.")
@click.option("--custom-fields", type=_JSON, help="Anything else to keep with it.")
@inputs.input_options
@click.option("--wait", is_flag=True, help="Wait for its end, showing its status.")
@click.option("--watch", is_flag=True, help="The same, showing its log too.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), help=f"Seconds to wait; {WAIT_SECONDS:.0f} with --wait."
)
@click.option(
    "--poll-interval",
    type=click.FloatRange(min=0.1),
    default=3.0,
    show_default=True,
    help="Seconds between two looks.",
)
@workspace_option
@command_options
def create(
    flags: GlobalFlags,
    input_file: str | None,
    input_data: str | None,
    wait: bool,
    watch: bool,
    timeout: float | None,
    poll_interval: float,
    **given: Any,
) -> int:
    """Create a job from options, or from a whole body in a file; options win over the body.

    With --wait or --watch the exit status is that of `nemo jobs watch`; the job goes on if you stop waiting.
    """
    from nemo_helix_plugin.jobs.types import CreateHelixJobRequest

    if wait and watch:
        raise click.UsageError("Give --wait or --watch, not both.")
    call = CommandContext(flags)
    found = inputs.body(input_file, input_data, given)
    missing = [
        f"--{key.replace('_', '-')}" for key in ("source", "spec", "platform_spec") if key not in found
    ]
    if missing:
        needed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise click.UsageError(f"A job needs {needed}, as options or in --input-file{_file_of(found)}.")
    body = inputs.validated(CreateHelixJobRequest, found)
    operation = Operation("jobs.create_job", {"body": body, "workspace": call.workspace})
    if call.prints_code(operation):
        return EXIT_DONE
    answer = call.answer(operation)
    job, new = record_of(answer.data()), answer.status_code == CREATED
    if not (wait or watch):
        call.print_entity(job, job_card(call))
        if not new:
            call.report(f"job '{job['name']}' was there already, with the same contents; none was made.")
        return EXIT_DONE
    from nemo_helix_plugin.cli.commands.jobs.watch import Watch, run

    if timeout is None and wait:
        timeout = WAIT_SECONDS
    wanted = Watch(
        job["name"], timeout=timeout, poll_interval=poll_interval, include_logs=watch, report_to_stderr=True
    )
    call.report(
        f"{'created job' if new else 'there is already the job'} '{job['name']}'; waiting for its end."
    )
    return run(call, wanted)


def _file_of(found: Mapping[str, Any]) -> str:
    """What to type where the name that was given is that of a file."""
    name = str(found.get("name", ""))
    return f"; to give the file {name}, type --input-file {name}" if name and Path(name).is_file() else ""
