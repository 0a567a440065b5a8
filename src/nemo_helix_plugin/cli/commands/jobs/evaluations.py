"""`nemo jobs evaluations`: what a training's checkpoints scored and answered while it ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import name_argument

_COLUMNS = ("step", "score", "low", "high", "rows", "seconds", "error")


@click.command(short_help="Scores and answers of a training's checkpoints.")
@name_argument
@workspace_option
@command_options
def evaluations(flags: GlobalFlags, name: str) -> None:
    """Show the evaluations of a training: each with its score and interval, then each fixed prompt with its
    answers, one below the other, by training step.

    The first evaluation and the newest ones are shown; `nemo jobs plot NAME --metric 'eval_*'` draws all.
    """
    from nemo_helix_plugin.job_words import evaluating, job_state

    call = CommandContext(flags)
    operation = Operation("jobs.get_job", {"name": name, "workspace": call.workspace})
    if call.prints_code(operation):
        return
    job = record_of(call.ask(operation))
    details = job_state.details(job)
    rows, prompts = evaluating.rows(details), evaluating.side_by_side(details)
    if call.output_format in {"csv", "markdown"}:
        call.print_list(rows, _COLUMNS)
    elif call.entity_format != "table":
        call.print_entity({"job": name, "evaluations": rows, "prompts": prompts})
    else:
        nothing = f"job '{name}' is {job.get('status')} and no checkpoint of it was evaluated."
        call.print_list(rows, _COLUMNS, empty=nothing)
        for line in _lines(prompts):
            click.echo(line)


def _lines(prompts: list[dict[str, Any]]) -> Iterator[str]:
    from nemo_helix_plugin.cli.output.cells import printable

    for one in prompts:
        yield ""
        yield f"prompt: {printable(_on_one_line(one['prompt']))}"
        for answer in one["answers"]:
            yield f"  step {answer.get('step')}: {printable(_text(answer))}"


def _text(answer: Mapping[str, Any]) -> str:
    return _on_one_line(str(answer.get("text"))) or "(nothing)"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
