"""`nemo jobs list|get|get-status|transitions|list-execution-profiles`: looking at jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from nemo_helix_plugin.cli.command_context import CommandContext, Paging
from nemo_helix_plugin.cli.filters import FilteringCommand, combined
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import (
    columns_option,
    job_card,
    job_with_steps,
    name_argument,
    paging_options,
    query,
)

SORTS = ("created_at", "-created_at", "updated_at", "-updated_at", "source", "-source")


@click.command("list", cls=FilteringCommand, short_help="Jobs of a workspace, newest first.")
@click.option(
    "--filter",
    "text",
    metavar="FILTER",
    help='As text (`status:error AND name~llama`) or JSON (`{"status": {"$in": ["error"]}}`).',
)
@click.option("--sort", type=click.Choice(SORTS), help="The order; newest first if not given.")
@workspace_option
@paging_options
@command_options
def list_jobs(
    flags: GlobalFlags,
    text: str | None,
    dotted: list[tuple[str, str]],
    sort: str | None,
    page: int | None,
    page_size: int | None,
    paging: Paging,
) -> None:
    """List jobs, newest first; `--workspace -` lists those of all workspaces.

    A dotted filter names a field, or a path into the spec, and may end in an operator:
    `--filter.status error`, `--filter.spec.backend unsloth`, `--filter.created_at.gte 2026-01-01`.
    """
    from nemo_helix_plugin.jobs.types import ListJobsQueryParams

    call = CommandContext(flags)
    wanted = query(
        ListJobsQueryParams, page=page, page_size=page_size, sort=sort, filter=combined(text, dotted)
    )
    asked = {"workspace": call.workspace, "query_params": wanted}
    operation = Operation("jobs.list_jobs", asked, "list" if paging.all_pages else "page")
    everywhere = ["workspace"] if call.workspace == "-" else []

    def note(job: Mapping[str, Any]) -> str:
        from nemo_helix_plugin.job_words import job_state

        return job_state.note(job, call.display.now)

    where = "in any workspace" if everywhere else f"in workspace '{call.workspace}'"
    call.show_list(
        operation,
        [*everywhere, "name", "description", "status", "created_at"],
        paging,
        extra=("note", note),
        empty=f"no job {where}{' passes the filter' if text or dotted else ''}.",
    )


@click.command(short_help="One job: its status, and why.")
@name_argument
@workspace_option
@command_options
def get(flags: GlobalFlags, name: str) -> None:
    """Print a job: on a terminal its status, its steps and what can be done next; else all of it."""
    call = CommandContext(flags)
    operation = Operation("jobs.get_job", {"name": name, "workspace": call.workspace})
    if call.prints_code(operation):
        return
    from nemo_helix_plugin.cli.command_context import record_of

    job = record_of(call.ask(operation))
    tree = job_with_steps(call, name) if call.entity_format == "table" else None
    call.print_entity(job, job_card(call, tree))


@click.command("get-status", short_help="Status of a job, its steps and their tasks.")
@name_argument
@workspace_option
@command_options
def get_status(flags: GlobalFlags, name: str) -> None:
    """Print the status of a job, of the steps of its current attempt, and of their tasks."""
    call = CommandContext(flags)
    operation = Operation("jobs.get_job_status", {"name": name, "workspace": call.workspace})

    def card(tree: Mapping[str, Any]) -> Any:
        return job_card(call, tree)({"workspace": call.workspace, **tree})

    call.show_entity(operation, card)


@click.command(short_help="Every change of status: when, who, why.")
@name_argument
@click.option("--since", type=click.IntRange(min=0), metavar="SEQ", help="Only changes after this one.")
@click.option("--limit", type=click.IntRange(min=1, max=10000), help="At most so many.")
@columns_option
@workspace_option
@command_options
def transitions(
    flags: GlobalFlags, name: str, since: int | None, limit: int | None, columns: str | None
) -> None:
    """List every change of status of a job, its attempts, steps and tasks, oldest first."""
    from nemo_helix_plugin.jobs.types import ListTransitionsQueryParams

    call = CommandContext(flags)
    wanted = query(ListTransitionsQueryParams, since=since, limit=limit)
    asked = {"name": name, "workspace": call.workspace, "query_params": wanted}
    operation = Operation("jobs.list_transitions", asked, "list")
    empty = f"job '{name}' has not changed yet."
    if call.output_format == "table" and columns is None:
        records = call.all_records(operation)
        call.print_list(_for_people(records), ["at", "step", "change", "why"], empty=empty)
        return
    paging = Paging(all_pages=True, columns=columns)
    names = ["seq", "at", "about", "step", "from", "to", "who", "why"]
    call.show_list(operation, names, paging, empty=empty)


def _for_people(records: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What happened, each thing once: a job that changes because its step does is not said again."""
    rows: list[dict[str, Any]] = []
    last: tuple[Any, ...] = ()
    for record in records:
        what = (record.get("to"), record.get("why"))
        if record.get("step") is None and what == last:
            continue
        last = what
        change = f"{record['from']} → {record['to']}" if record.get("from") else record["to"]
        why = f"{record.get('why') or ''} ({record['who']})" if record.get("who") else record.get("why")
        step = record.get("step")
        where = f"{step}, {record.get('task')}" if record.get("about") == "task" else step
        rows.append({"at": record["at"], "step": where, "change": change, "why": why})
    return rows


@click.command("list-execution-profiles", short_help="Where steps can run.")
@columns_option
@command_options
def list_execution_profiles(flags: GlobalFlags, columns: str | None) -> None:
    """List the execution profiles that steps can name, with the backend of each."""
    from nemo_helix_plugin.cli.commands.profiles import show_profiles

    show_profiles(CommandContext(flags), Operation("jobs.get_execution_profiles", {}), columns)
