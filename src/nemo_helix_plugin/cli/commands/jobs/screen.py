"""What a watch shows: status lines, log lines, and on a terminal one last line that moves."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from nemo_helix_plugin.cli.command_context import CommandContext, console, record_of
from nemo_helix_plugin.cli.commands.jobs.logs import shown_message
from nemo_helix_plugin.cli.output import cells, documents
from nemo_helix_plugin.job_words import job_state, times

if TYPE_CHECKING:
    from nemo_helix_plugin.jobs.watch_types import JobLogEvent, JobStatusEvent

BAR = 20
SHORT_BAR = 10
NARROW = 100
"""Terminals with fewer columns get the short bar."""
UNMOVABLE = frozenset({"dumb", "unknown"})
"""What TERM is where the cursor cannot be sent back: no line moves there."""


class Silent:
    """Shows nothing: only the end counts."""

    latest = ""
    """The status that was heard of last."""

    def status(self, event: JobStatusEvent) -> None:
        """Nothing."""

    def log(self, event: JobLogEvent) -> None:
        """Nothing."""

    def pause(self) -> None:
        """Nothing is there that would disturb other lines."""


class Records(Silent):
    """Shows every event as one line of JSON."""

    def status(self, event: JobStatusEvent) -> None:
        """The status as it is."""
        click.echo(documents.json_line(record_of(event)))

    def log(self, event: JobLogEvent) -> None:
        """The line as it is."""
        click.echo(documents.json_line(record_of(event)))


class LineScreen:
    """For people: a line when the status changes, the log as it comes, progress below on a terminal."""

    latest = ""

    def __init__(self, call: CommandContext, *, stderr: bool) -> None:
        self._file = sys.stderr if stderr else sys.stdout
        self._moves = self._file.isatty() and os.environ.get("TERM", "").lower() not in UNMOVABLE
        self._console = console(color=call.context.color_output, stderr=stderr)
        self._unicode = (self._file.encoding or "").lower().startswith("utf")
        self._moving = Text("")
        self._seen: tuple[object, ...] = ()
        self._warned: set[str] = set()

    def status(self, event: JobStatusEvent) -> None:
        """A line for a new status or reason; else only the moving line changes."""
        record = record_of(event)
        value = str(event.status)
        seen = (event.attempt_id, value, job_state.reason(record))
        if seen != self._seen:
            new_attempt = bool(self._seen) and self._seen[0] != event.attempt_id
            self._report_status(record, value, event.since or datetime.now(UTC), new_attempt=new_attempt)
            self._seen = seen
        self._moving = Text("") if event.terminal else self._progress(value, job_state.details(record))
        self._draw()

    def _report_status(self, record: Any, value: str, since: datetime, *, new_attempt: bool) -> None:
        reasons = [job_state.reason(record), job_state.failure(record) if value == "error" else ""]
        words = [part for part in reasons if part] or [job_state.progress(job_state.details(record))]
        said = "; ".join(part for part in ("new attempt" if new_attempt else "", *words) if part)
        moment = (times.exact(since), "dim")
        sign = cells.sign(value, unicode=self._unicode)
        self._line(Text.assemble(moment, "  ", sign, " ", cells.status(value), f"  {cells.printable(said)}"))
        for warning in job_state.warnings(record):
            if warning not in self._warned:
                self._warned.add(warning)
                self._line(Text(f"warning: {cells.printable(warning)}", style="yellow"))

    def log(self, event: JobLogEvent) -> None:
        """The line, behind the name of its step."""
        step = event.step_id or "-"
        self._line(Text.assemble((f"{step} | ", "dim"), shown_message(event.message)))
        self._draw()

    def pause(self) -> None:
        """Take the moving line away, so that something else can be printed."""
        self._clear()
        self._moving = Text("")

    def _progress(self, status: str, found: Any) -> Text:
        done, text = job_state.fraction(found), job_state.progress(found)
        if not text:
            return Text("")
        losses = job_state.losses(found)
        parts: list[Any] = [cells.sign(status, unicode=self._unicode), " ", cells.status(status), "  "]
        if done is not None:
            width = BAR if self._console.width >= NARROW else SHORT_BAR
            parts += [cells.bar(done, width, unicode=self._unicode), "  "]
        return Text.assemble(*parts, text, (f"  {losses}" if losses else "", "dim"))

    def _line(self, text: Text) -> None:
        self._clear()
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def _clear(self) -> None:
        if self._moves and self._moving.plain:
            self._file.write("\r\x1b[K")
            self._file.flush()

    def _draw(self) -> None:
        if not (self._moves and self._moving.plain):
            self._file.flush()
            return
        shown = self._moving.copy()
        shown.truncate(max(10, self._console.width - 1), overflow="ellipsis")
        self._file.write("\r\x1b[K")
        self._console.print(shown, end="", soft_wrap=True)
        self._file.flush()
