"""One job, as a person wants to see it: its status, its steps, its storage, what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nemo_helix_plugin.cli.output import cells
from nemo_helix_plugin.job_words import deciding, evaluating, job_state, tags, times, trained_models
from nemo_helix_plugin.jobs.statuses import HelixJobStatus
from nemo_runs.sizes import size_in_words

Record = Mapping[str, Any]
Line = tuple[str, RenderableType]

BAR = 24
LABEL = 11


def card(job: Record, tree: Record | None, display: cells.DisplayOptions) -> RenderableType:
    """A job's card; ``tree`` is its status tree, where that could be had."""
    status = str(job.get("status"))
    head = Text.assemble(
        cells.sign(status, unicode=display.unicode),
        " ",
        (cells.printable(str(job.get("name"))), "bold"),
        "  ",
        cells.status(status),
    )
    parts: list[RenderableType] = [head, _grid(list(_lines(job, display)))]
    steps = list((tree or {}).get("steps") or ())
    if steps:
        parts += [Text("  steps", style="dim"), _steps(steps, display, set(job_state.warnings(job)))]
    next_command = job_state.next_command(job)
    following = [next_command] if next_command else trained_models.model_commands(job)
    for label, command in zip(["  next", *[""] * len(following)], following, strict=False):
        parts.append(Text.assemble((f"{label:<{LABEL}}", "dim"), "  ", (cells.printable(command), "bold")))
    return Group(*parts)


def checkpoint_card(found: Record, display: cells.DisplayOptions) -> RenderableType:
    """A checkpoint's card: whose it is, whether it can be gone on from, and whether it is kept for good."""
    head = Text.assemble((cells.printable(str(found.get("id"))), "bold"), f"  step {found.get('step')}")
    return Group(head, _grid(list(_checkpoint_lines(found, display))))


def _checkpoint_lines(found: Record, display: cells.DisplayOptions) -> Iterator[Line]:
    yield "job", Text(cells.printable(f"{found.get('job')} in {found.get('workspace')}"))
    saved = times.parsed(found.get("created_at"))
    if saved:
        ago = times.relative(saved, display.now)
        yield "saved", Text.assemble(times.exact(saved), (f"  {ago}, {found.get('reason') or '?'}", "dim"))
    yield "size", Text(size_in_words(found.get("size_bytes") or 0))
    problem = cells.printable(str(found.get("problem") or "not checked yet"))
    yield "verified", Text("yes") if found.get("verified") else Text(f"no: {problem}", style="red")
    metrics = sorted((found.get("metrics") or {}).items())
    if metrics:
        yield "metrics", Text(cells.printable(", ".join(f"{name} {value:.4g}" for name, value in metrics)))
    pinned = times.parsed(found.get("pinned_at"))
    yield "pinned", Text((times.exact(pinned) if pinned else "yes") if found.get("pinned") else "no")
    if found.get("location"):
        yield "kept in", Text(cells.printable(str(found["location"])))


def _tags(job: Record) -> Iterator[Line]:
    found = tags.tags_of(job.get("custom_fields"))
    if found:
        yield "tags", Text(cells.printable(" ".join(found)))


def _lines(job: Record, display: cells.DisplayOptions) -> Iterator[Line]:
    for key in ("workspace", "description", "source", "project"):
        if job.get(key):
            yield key, Text(cells.printable(str(job[key])))
    yield from _tags(job)
    found = job_state.details(job)
    yield from _progress(found, display)
    speed = job_state.speed(found, going_on=job.get("status") == HelixJobStatus.ACTIVE)
    if speed:
        yield "speed", Text(speed)
    yield from _going_on(found)
    yield from _reasons(job)
    yield from _ends(job)
    last_log_line = job_state.last_log_line(job)
    if last_log_line:
        yield "log ends", Text(cells.printable(last_log_line))
    advice = job_state.advice(job)
    if advice:
        yield "advice", Text(cells.printable(advice))
    for tracker, where in job_state.runs(job):
        yield tracker, Text(cells.printable(where))
    for warning in job_state.warnings(job):
        yield "warning", Text(cells.printable(warning), style="yellow")
    storage = _storage(job, display)
    if storage.plain:
        yield "storage", storage
    windows = job_state.windows(job)
    if windows:
        yield "keeps", Text(windows)
    for key in ("created_at", "updated_at"):
        moment = times.parsed(job.get(key))
        if moment:
            ago = times.relative(moment, display.now)
            yield key.removesuffix("_at"), Text.assemble(times.exact(moment), (f"  {ago}", "dim"))


def _ends(job: Record) -> Iterator[Line]:
    """What went wrong, or what was made."""
    if failure := job_state.failure(job):
        yield "error", Text(cells.printable(failure), style="red")
    if model := trained_models.trained_model(job):
        yield "model", Text(cells.printable(model))


def _progress(found: Record, display: cells.DisplayOptions) -> Iterator[Line]:
    text, done = job_state.progress(found), job_state.fraction(found)
    if not text:
        return
    losses = job_state.losses(found)
    shown = Text(f"{text}{f', {losses}' if losses else ''}")
    yield (
        "progress",
        shown if done is None else Text.assemble(cells.bar(done, BAR, unicode=display.unicode), " ", shown),
    )


def _reasons(job: Record) -> Iterator[Line]:
    """Why it has its status, and what its executor cannot do for it where that is something else."""
    reason = job_state.reason(job)
    if reason:
        yield "reason", Text(cells.printable(reason))
    problem = " ".join(str(job_state.details(job).get("executor_problem") or "").split())
    if problem and problem != reason:
        yield "problem", Text(cells.printable(problem), style="yellow")


def _going_on(found: Record) -> Iterator[Line]:
    for label, said in (
        ("goes on", job_state.goes_on(found)),
        ("saves", job_state.saves(found)),
        ("best", deciding.best_checkpoint(found)),
        ("ends early", deciding.early_stopping(found)),
        ("evaluated", evaluating.evaluation(found)),
    ):
        if said:
            yield label, Text(cells.printable(said))


def _storage(job: Record, display: cells.DisplayOptions) -> Text:
    kept = job_state.kept(job, display.now)
    parts = [f"{size_in_words(job['storage_bytes'])}" if job.get("storage_bytes") else "", kept]
    until = times.parsed(job.get("storage_expires_at"))
    soon = until is not None and (until - display.now).total_seconds() < 86400
    return Text(", ".join(part for part in parts if part), style="yellow" if soon else "")


def _steps(steps: list[Record], display: cells.DisplayOptions, said: set[str]) -> Table:
    """Each step with its sign, its progress, and below it what it warns of and nobody ``said`` yet."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap, overflow="fold")
    for step in steps:
        status = str(step.get("status"))
        name = Text.assemble(
            "    ", cells.sign(status, unicode=display.unicode), " ", cells.printable(str(step.get("name")))
        )
        table.add_row(name, cells.status(status), Text(cells.printable(job_state.step_note(step))))
        for warning in (text for text in job_state.warnings(step) if text not in said):
            table.add_row("", Text("warning", style="yellow"), Text(cells.printable(warning), style="yellow"))
    return table


def _grid(lines: list[Line]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim", min_width=LABEL)
    table.add_column(overflow="fold")
    for label, value in lines:
        table.add_row(f"  {label}", value)
    return table
