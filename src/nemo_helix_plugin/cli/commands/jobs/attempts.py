"""`nemo jobs attempts list|get`: the runs of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.filters import check_status
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import job_option, name_argument, paging_options, query

attempts = NemoGroup("attempts", help="The runs of a job; a rerun makes a new one.")


@attempts.command("list", short_help="All runs of a job, newest first.")
@name_argument
@click.option("--filter.status", "status", metavar="STATUS", help="Attempts in this status.")
@click.option("--sort", type=click.Choice(["seq", "-seq"]), help="The order; newest first if not given.")
@workspace_option
@paging_options
@command_options
def list_attempts(
    flags: GlobalFlags,
    name: str,
    status: str | None,
    sort: str | None,
    page: int | None,
    page_size: int | None,
    paging: Paging,
) -> None:
    """List the attempts of a job, newest first."""
    from nemo_helix_plugin.jobs.types import ListAttemptsQueryParams

    if status:
        check_status(status)
    call = CommandContext(flags)
    wanted = query(
        ListAttemptsQueryParams,
        page=page,
        page_size=page_size,
        sort=sort,
        filter={"status": status.split(",")} if status else None,
    )
    asked = {"job": name, "workspace": call.workspace, "query_params": wanted}

    def note(attempt: Mapping[str, Any]) -> str:
        from nemo_helix_plugin.job_words import job_state

        return job_state.note(attempt, call.display.now)

    call.show_list(
        Operation("jobs.list_job_attempts", asked, "list" if paging.all_pages else "page"),
        ["seq", "id", "status", "created_at", "is_current"],
        paging,
        extra=("note", note),
        empty=f"job '{name}' has no {f'attempt in {status}' if status else 'attempt yet'}.",
    )


@attempts.command("get", short_help="One run of a job.")
@click.argument("attempt")
@job_option
@workspace_option
@command_options
def get(flags: GlobalFlags, attempt: str, job: str) -> None:
    """Print one attempt of a job: ATTEMPT is its id, or `current`."""
    call = CommandContext(flags)
    asked = {"job": job, "attempt": attempt, "workspace": call.workspace}
    call.show_entity(Operation("jobs.get_job_attempt", asked))
