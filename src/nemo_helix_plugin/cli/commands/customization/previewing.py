"""`nemo customization <backend> preview`: what a job would learn, without a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from nemo_helix_plugin import errors
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.output.code import Operation
from nemo_runs.counts import counted

_PREVIEW_TIMEOUT = 660.0
"""Seconds to wait for the service, which may first have to finish another preview."""
_MOST_LINES = 20


def run(call: CommandContext, backend: str, spec: Mapping[str, Any], rows: int) -> int:
    """Ask the service, and print what it says: for people, or as JSON."""
    asked = {"spec": dict(spec), "rows": rows, "workspace": call.workspace}
    operation = Operation(f"customization.{backend}.preview", asked)
    if call.prints_code(operation):
        return errors.EXIT_DONE
    call.client = call.client.with_options(timeout=_PREVIEW_TIMEOUT)
    found = record_of(call.ask(operation))
    if call.entity_format != "table":
        call.print_entity(found)
        return errors.EXIT_DONE
    for line in shown(found):
        click.echo(line)
    return errors.EXIT_DONE


def shown(found: Mapping[str, Any]) -> Iterator[str]:
    """The lines for people."""
    yield f"{found['method']} with {found['engine']}, rows of at most {found['max_seq_length']} tokens" + (
        ", packed" if found.get("packing") else ""
    )
    parts = [("training", found["training"]), *(("training", one) for one in found.get("beside") or ())]
    for part, facts in [*parts, ("validation", found.get("validation"))]:
        if facts:
            yield from _counts(part, facts, found["max_seq_length"], found.get("overlong") or "truncate")
    for row in found["rows"]:
        yield ""
        of = f" of {row['file']}" if row.get("file") else ""
        yield f"line {row['line']}{of}, {counted(row['tokens'], 'token')}"
        for piece in row["parts"]:
            for text in piece["text"].replace("\n", "\\n\n").splitlines():
                yield f"  {piece['mark']:8}  {text}"


def _counts(part: str, facts: Mapping[str, Any], longest: int, overlong: str) -> Iterator[str]:
    learned = f", {facts['tokens_learned']} of them learned" if facts["tokens_learned"] else ""
    yield (
        f"{part}: {facts['file']}, {counted(facts['rows'], 'row')}, "
        f"{counted(facts['tokens'], 'token')}{learned}{_times(facts.get('weight', 1))}"
    )
    cut = f"longer than {longest} tokens, which is an error" if overlong == "error" else "cut at the end"
    why = "longer than" if overlong == "drop" else "with nothing to learn in"
    for lines, what in (
        (facts["shortened_lines"], cut),
        (facts["left_out_lines"], f"left out, {why} {longest} tokens"),
    ):
        if lines:
            yield f"  {what}: {len(lines)} of {counted(facts['rows'], 'row')} ({_lines(lines)})"
    if facts["tokens_cut"]:
        yield f"  tokens cut in all: {facts['tokens_cut']}"
    for key, count in facts["unused_keys"].items():
        yield f"  nothing is learned of the key '{key}': {count} of {counted(facts['rows'], 'row')}"
    for kind in facts.get("unwritten", ()):
        times = "once" if kind["times"] == 1 else f"{kind['times']} times"
        yield (
            f"  the chat template leaves out '{kind['text']}': {times}, in "
            f"{len(kind['lines'])} of {counted(facts['rows'], 'row')} ({_lines(kind['lines'])})"
        )
    if facts.get("without_end_lines"):
        lines = facts["without_end_lines"]
        yield (
            f"  the last answer ends with no special token, so that ending it is not learned: "
            f"{len(lines)} of {counted(facts['rows'], 'row')} ({_lines(lines)})"
        )


def _times(weight: float) -> str:
    return "" if weight == 1 else f", each {weight:g} times an epoch"


def _lines(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    more = f" and {len(numbers) - _MOST_LINES} more" if len(numbers) > _MOST_LINES else ""
    return f"lines {', '.join(map(str, numbers[:_MOST_LINES]))}{more}"
