"""`nemo jobs results create|list|get|download`: what a job made."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nemo_cli.completion import files
from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import columns_option, job_option, name_argument, query
from nemo_runs.counts import counted

results = NemoGroup("results", help="What a job made, by name.")


@results.command("list", short_help="All results of a job.")
@name_argument
@click.option("--attempt-id", metavar="ID", help="Results of this attempt; `current` is the newest.")
@click.option("--sort", metavar="FIELD", help="The order.")
@columns_option
@workspace_option
@command_options
def list_results(
    flags: GlobalFlags, name: str, attempt_id: str | None, sort: str | None, columns: str | None
) -> None:
    """List the results of a job."""
    from nemo_helix_plugin.jobs.types import ListResultsQueryParams

    call = CommandContext(flags)
    wanted = query(ListResultsQueryParams, sort=sort, attempt_id=attempt_id)
    asked = {"name": name, "workspace": call.workspace, "query_params": wanted}
    call.show_list(
        Operation("jobs.list_job_results", asked, "list"),
        ["name", "artifact_url", "artifact_storage_type", "created_at"],
        Paging(all_pages=True, columns=columns),
        empty=f"job '{name}' has no result yet.",
    )


@results.command("get", short_help="One result.")
@name_argument
@job_option
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str, job: str) -> None:
    """Print the result NAME of a job: where its artifact is."""
    call = CommandContext(flags)
    asked = {"job": job, "name": name, "workspace": call.workspace}
    call.show_entity(Operation("jobs.get_job_result", asked))


@results.command("create", short_help="Name an artifact as a result.")
@name_argument
@job_option
@click.option("--artifact-url", metavar="URL", help="Where the artifact is; required in the end.")
@click.option("--artifact-storage-type", metavar="TYPE", help="What kind of place that is; `fileset`.")
@inputs.input_options
@workspace_option
@command_options
def create(
    flags: GlobalFlags,
    name: str,
    job: str,
    artifact_url: str | None,
    artifact_storage_type: str | None,
    input_file: str | None,
    input_data: str | None,
) -> None:
    """Make the result NAME of a job: a name for an artifact."""
    from nemo_helix_plugin.jobs.types import CreateHelixJobResultRequest

    given = {"artifact_url": artifact_url, "artifact_storage_type": artifact_storage_type}
    body = inputs.validated(CreateHelixJobResultRequest, inputs.body(input_file, input_data, given))
    call = CommandContext(flags)
    asked = {"job": job, "name": name, "workspace": call.workspace, "body": body}
    call.show_entity(Operation("jobs.create_job_result", asked))


@results.command("download", short_help="Fetch a result's artifact.")
@name_argument
@job_option
@click.option(
    "-o",
    "--output-file",
    "target",
    metavar="FILE",
    shell_complete=files,
    help="Where to write it, whole or not at all; `-` is standard output. A folder comes as a tar.",
)
@workspace_option
@command_options
def download(flags: GlobalFlags, name: str, job: str, target: str | None) -> None:
    """Fetch the artifact of the result NAME; without -o into a file of that name here."""
    call = CommandContext(flags)
    asked = {"job": job, "name": name, "workspace": call.workspace}
    operation = Operation("jobs.download_job_result", asked, "bytes")
    if call.prints_code(operation):
        return
    if target == "-":
        with call.asking(), call.ask(operation).stream() as answer:
            for piece in answer.iter_bytes():
                sys.stdout.buffer.write(piece)
        return
    with call.asking():
        path = call.ask(operation).save(Path(target or name))
    call.print_done(
        f"{path}: {counted(path.stat().st_size, 'byte')}", {"file": str(path), "bytes": path.stat().st_size}
    )
