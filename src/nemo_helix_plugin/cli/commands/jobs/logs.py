"""`nemo jobs get-logs|tail`: what the processes of a job wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output import documents
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import log_options, name_argument, query

COLUMNS = ["timestamp", "job_step", "job_task", "message"]
MOST = 10_000
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)")

Record = Mapping[str, Any]


@click.command("get-logs", short_help="A job's log, page by page.")
@name_argument
@click.option("--limit", type=click.IntRange(min=1, max=MOST), help="Lines on a page; 100 if not given.")
@click.option("--page-cursor", metavar="CURSOR", help="Where to go on, as the page before said.")
@click.option("--tail", type=click.IntRange(min=1, max=MOST), help="The last lines; without the two above.")
@click.option("--all-pages", is_flag=True, help="The whole log, not one page.")
@log_options
@workspace_option
@command_options
def get_logs(
    flags: GlobalFlags,
    name: str,
    limit: int | None,
    page_cursor: str | None,
    tail: int | None,
    all_pages: bool,
    **chosen: str | None,
) -> None:
    """Print a job's log, oldest line first: on a terminal its lines, else one JSON list of them."""
    if tail is not None and (limit is not None or page_cursor is not None or all_pages):
        raise click.UsageError("--tail goes with none of --limit, --page-cursor and --all-pages.")
    call = CommandContext(flags)
    wanted = {"limit": limit or (MOST if all_pages else None), "page_cursor": page_cursor, "tail": tail}
    _show(call, name, {**wanted, **chosen}, all_pages=all_pages)


@click.command(short_help="The last lines of a job's log.")
@name_argument
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=1, max=MOST),
    default=100,
    show_default=True,
    help="How many lines.",
)
@log_options
@workspace_option
@command_options
def tail(flags: GlobalFlags, name: str, lines: int, **chosen: str | None) -> None:
    """Print the last lines of a job's log; `nemo jobs watch` follows it."""
    _show(CommandContext(flags), name, {"tail": lines, **chosen}, all_pages=False)


def log_text(record: Record, *, prefix: bool = True) -> str:
    """A line of a log for people: when, which step, what; nothing in it can steer a terminal."""
    message = shown_message(str(record.get("message") or ""))
    if not prefix:
        return message
    moment = str(record.get("timestamp") or "")
    return f"{moment[:19]}{'Z' if moment else ''}  {record.get('job_step') or '-'}  {message}"


def shown_message(message: str) -> str:
    """A message without escape sequences and control characters; a carriage return starts it again."""
    from nemo_helix_plugin.cli.output.cells import printable

    last = _ESCAPES.sub("", message.rstrip("\r\n")).rpartition("\r")[2]
    return printable(last.replace("\t", "    "))


def _show(call: CommandContext, name: str, wanted: dict[str, Any], *, all_pages: bool) -> None:
    from nemo_helix_plugin.jobs.types import JobLogsQueryParams

    operation = Operation(
        "jobs.list_job_logs",
        {"name": name, "workspace": call.workspace, "query_params": query(JobLogsQueryParams, **wanted)},
    )
    if call.prints_code(operation):
        return
    pages = _pages(call, operation, wanted) if all_pages else iter([record_of(call.ask(operation))])
    if call.output_format == "table":
        following = None
        for page in pages:
            for record in page["data"]:
                click.echo(log_text(record))
            following = page.get("next_page")
    else:
        found = list(pages)
        _print(call, found)
        following = found[-1].get("next_page") if found else None
    if following and not all_pages and wanted.get("tail") is None:
        call.report(f"there may be more; --page-cursor {following} goes on from here, --all-pages shows all.")


def _pages(call: CommandContext, operation: Operation, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Page after page, until one is empty or the last."""
    from nemo_helix_plugin.jobs.types import JobLogsQueryParams

    arguments = dict(operation.arguments)
    while True:
        page = record_of(call.ask(Operation(operation.method, arguments)))
        yield page
        if not page["data"] or not page.get("next_page"):
            return
        asked = query(JobLogsQueryParams, **{**wanted, "page_cursor": page["next_page"]})
        arguments["query_params"] = asked


def _print(call: CommandContext, pages: Sequence[dict[str, Any]]) -> None:
    lines = [line for page in pages for line in page["data"]]
    if call.output_format == "raw":
        click.echo(documents.json_line(pages[0] if len(pages) == 1 else {"data": lines}))
    else:
        call.print_list(lines, COLUMNS)
