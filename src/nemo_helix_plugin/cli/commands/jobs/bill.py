"""`nemo jobs bill`: what each allocation of a job used, waited for, and lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import name_argument
from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words

_COLUMNS = ["step", "began_at", "waited", "ran", "GPU hours", "training steps", "done again", "lost", "end"]


@click.command(short_help="What a job's allocations used, waited for, and lost.")
@name_argument
@workspace_option
@command_options
def bill(flags: GlobalFlags, name: str) -> None:
    """Print the bill of a job: a line for each start of its steps, in all attempts, and the sums.

    Waiting is time without an allocation in which a step could have run. Lost is time after the last save,
    where another start does the same again. A pause costs neither.
    """
    call = CommandContext(flags)
    operation = Operation("jobs.get_job_bill", {"name": name, "workspace": call.workspace})
    if call.prints_code(operation):
        return
    found = record_of(call.ask(operation))
    if call.output_format in {"csv", "markdown"}:
        call.print_list(found["allocations"], list(found["allocations"][0]) if found["allocations"] else [])
        return
    if call.entity_format != "table":
        call.print_entity(found)
        return
    lines = found["allocations"]
    call.print_list([_line(line) for line in lines], _COLUMNS, empty=f"job '{name}' was not started yet.")
    if lines:
        click.echo(f"\n{_sums(found['totals'])}")


def _line(line: Mapping[str, Any]) -> dict[str, Any]:
    attempt = f" (attempt {line['attempt'] + 1})" if line["attempt"] else ""
    trained = line["first_step"] is not None and line["last_step"] is not None
    end = line["end"] or ("runs" if line["began_at"] else "waits")
    end = f"{end}, since {line['cause']}" if line.get("cause") else end
    end = f"{end}, without notice" if line["unannounced"] else end
    return {
        "step": f"{line['step']}{attempt}",
        "began_at": line["began_at"],
        "waited": _time(line["waited_seconds"]),
        "ran": _time(line["seconds"]),
        "GPU hours": _hours(line["gpu_seconds"]),
        "training steps": f"{line['first_step']:,} to {line['last_step']:,}" if trained else None,
        "done again": line["repeated_steps"] or None,
        "lost": _time(line["lost_seconds"]),
        "end": f"{end}: {line['place']}" if line["place"] else end,
    }


def _sums(totals: Mapping[str, Any]) -> str:
    """The sums, a sentence for each kind."""
    gpus = f", {_hours(totals['gpu_seconds'])} GPU hours" if totals["gpu_seconds"] else ""
    nodes = totals["node_seconds"]
    hours = f" ({nodes / 3600:.2f} node hours{gpus})" if gpus or nodes != totals["seconds"] else ""
    ran = f"{counted(totals['allocations'], 'allocation')} ran {_words(totals['seconds'])}{hours}"
    startup = f"{_words(totals['startup_seconds'])} until their first training steps"
    sentences = [f"{ran}, of which {startup}.", f"Waited {_words(totals['waited_seconds'])}."]
    lost, steps = totals["lost_seconds"], totals["repeated_steps"]
    if totals["interruptions"]:
        sentences.append(f"Interrupted {counted(totals['interruptions'], 'time')}.")
    if lost:
        again = f", {counted(steps, 'training step')} to be done again" if steps else ""
        sentences.append(f"Lost {_words(lost)}{again}.")
    return "\n".join(sentences)


def _time(seconds: float) -> str | None:
    return _words(seconds) if seconds >= 0.05 else None


def _words(seconds: float) -> str:
    return duration_in_words(seconds, tenths=True)


def _hours(gpu_seconds: float) -> str | None:
    return f"{gpu_seconds / 3600:.3f}" if gpu_seconds else None
