"""Arguments and options that several commands of `nemo jobs` take, and the card they answer with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from nemo_helix_plugin.cli import completing
from nemo_helix_plugin.cli.command_context import CommandContext, Paging, record_of
from nemo_helix_plugin.cli.output.code import Operation

if TYPE_CHECKING:
    from rich.console import RenderableType

Function = Callable[..., Any]


def name_argument(function: Function) -> Function:
    """Add the argument NAME: a job's name or id."""
    return click.argument("name", shell_complete=completing.job_names)(function)


def job_option(function: Function) -> Function:
    """Add ``--job``: whose attempt, step, task or result is meant."""
    return click.option(
        "--job",
        required=True,
        metavar="NAME",
        shell_complete=completing.job_names,
        help="The job's name or id.",
    )(function)


def paging_options(function: Function) -> Function:
    """Add the options of lists in pages; the command gets ``page``, ``page_size`` and ``paging``."""

    def with_paging(*args: Any, all_pages: bool, columns: str | None, stream: bool, **values: Any) -> Any:
        return function(*args, paging=Paging(all_pages, columns, stream), **values)

    with_paging.__dict__.update(function.__dict__)
    with_paging.__doc__, with_paging.__name__ = function.__doc__, function.__name__
    found: Function = with_paging
    for option in (
        click.option("--stream", is_flag=True, help="One JSON record a line."),
        columns_option,
        click.option("--all-pages", is_flag=True, help="All records, not one page."),
        click.option("--page-size", type=click.IntRange(min=1), help="Records on a page."),
        click.option("--page", type=click.IntRange(min=1), help="Which page, from 1."),
    ):
        found = option(found)
    return found


def columns_option(function: Function) -> Function:
    """Add ``--output-columns``."""
    return click.option(
        "-c",
        "--output-columns",
        "columns",
        metavar="NAMES",
        help="Columns of tables: `default`, `all`, or names with commas; `spec.backend` leads into a value.",
    )(function)


def log_options(function: Function) -> Function:
    """Add what selects a part of a log."""
    for option in (
        click.option("--task-id", metavar="NAME", help="Lines of this task only."),
        click.option("--step-id", metavar="NAME", help="Lines of the step of this name only."),
        click.option("--attempt-id", metavar="ID", help="Lines of this attempt; `current` is the newest."),
    ):
        function = option(function)
    return function


def job_card(call: CommandContext, tree: Any = None) -> Callable[[Mapping[str, Any]], RenderableType]:
    """What shows a job to a person."""

    def shown(job: Mapping[str, Any]) -> RenderableType:
        from nemo_helix_plugin.cli.output.card import card

        return card(job, tree, call.display)

    return shown


def checkpoint_card(call: CommandContext) -> Callable[[Mapping[str, Any]], RenderableType]:
    """What shows a checkpoint to a person."""

    def shown(found: Mapping[str, Any]) -> RenderableType:
        from nemo_helix_plugin.cli.output.card import checkpoint_card

        return checkpoint_card(found, call.display)

    return shown


def job_with_steps(call: CommandContext, name: str) -> Any:
    """The status tree of a job; nothing when it cannot be had, since only the card would show it."""
    from nemo_helix_plugin.errors import NemoError

    try:
        return record_of(
            call.ask(Operation("jobs.get_job_status", {"name": name, "workspace": call.workspace}))
        )
    except NemoError:
        return None


def query(model: type[Any], **values: Any) -> Any:
    """Query parameters; nothing when none was given."""
    from nemo_helix_plugin.cli.inputs import validated

    given = {name: value for name, value in values.items() if value is not None}
    return validated(model, given) if given else None
