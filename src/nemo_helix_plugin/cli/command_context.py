"""One call of a command: its flags, the context they lead to, the client, and printing what comes back."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nemo_helix_plugin.cli.global_options import GlobalFlags
from nemo_helix_plugin.cli.output import code, documents

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from nemo_helix_plugin.cli.output.cells import DisplayOptions
    from nemo_helix_plugin.client.client import NemoClient
    from nemo_helix_plugin.config.contexts import Resolved

Record = Mapping[str, Any]


class Paging(NamedTuple):
    """Which part of a list is wanted."""

    all_pages: bool = False
    columns: str | None = None
    stream: bool = False


class CommandContext:
    """What a command works with; nothing is read and nobody is asked before it is needed."""

    def __init__(self, flags: GlobalFlags) -> None:
        self.flags = flags

    @cached_property
    def context(self) -> Resolved:
        """The context that flags, environment and file lead to."""
        from nemo_helix_plugin.config.contexts import resolve

        return resolve(
            context=self.flags.context, base_url=self.flags.base_url, workspace=self.flags.workspace
        )

    @property
    def workspace(self) -> str:
        """The workspace of this call."""
        return self.context.workspace

    @cached_property
    def client(self) -> NemoClient:
        """The client of this call; it hangs up when the command ends."""
        from nemo_helix_plugin.client.client import NemoClient
        from nemo_helix_plugin.client.retries import RetryPolicy

        found = self.context
        if self.flags.verbose:
            where = f"context {found.context or 'none'}, address from {found.origin or 'it'}"
            token = "with" if found.access_token() else "without"
            self.report(f"asks {found.base_url} ({where}) {token} a token, workspace '{found.workspace}'.")
        client = NemoClient(
            base_url=found.base_url,
            workspace=found.workspace,
            auth=found.access_token,
            certificate_authority=found.certificate_authority,
            context=found.context,
            origin=found.origin,
            retry=RetryPolicy.platform(),
        )
        click.get_current_context().call_on_close(client.close)
        return client

    @cached_property
    def display(self) -> DisplayOptions:
        """How people are shown values."""
        from nemo_helix_plugin.cli.output.cells import DisplayOptions

        return DisplayOptions(
            now=datetime.now(UTC),
            timestamps=self.flags.timestamp_format or self.context.timestamp_format,
            unicode=(sys.stdout.encoding or "").lower().startswith("utf"),
        )

    @cached_property
    def console(self) -> Console:
        """Standard output for people: as wide as the terminal, in colour where that is wanted."""
        return console(color=self.context.color_output)

    @cached_property
    def output_format(self) -> str:
        """The format of this call: typed, else preferred; a preferred table nobody looks at is JSON."""
        typed = self.flags.output_format
        if typed:
            return typed
        preferred = self.context.output_format
        return "json" if preferred == "table" and not sys.stdout.isatty() else preferred

    @property
    def entity_format(self) -> str:
        """The format of one entity: tables of one row are JSON, except that a person gets a card."""
        if self.output_format in {"csv", "markdown"}:
            return "json"
        unseen = self.flags.output_format is None and not sys.stdout.isatty()
        return "json" if self.output_format == "table" and unseen else self.output_format

    def report(self, sentence: str) -> None:
        """One sentence on standard error."""
        click.echo(f"nemo: {sentence}", err=True)

    def asking(self) -> AbstractContextManager[None]:
        """Around what asks the service: an error gets its remedy."""
        from nemo_helix_plugin.cli.failures import explained

        return explained(self.context)

    def ask(self, operation: code.Operation) -> Any:
        """Do the operation, and return what its kind of result is: an object, or what gives several."""
        answer = self.answer(operation)
        return answer if operation.result in code.SEVERAL else answer.data()

    def answer(self, operation: code.Operation) -> Any:
        """Do the operation, and return the whole answer."""
        found: Any = self.client
        with self.asking():
            for part in operation.method.split("."):
                found = getattr(found, part)
            return found(**{name: value for name, value in operation.arguments.items() if value is not None})

    def prints_code(self, operation: code.Operation) -> bool:
        """With ``-f code`` print the Python that does it; then nothing is left to do."""
        if self.output_format != "code":
            return False
        click.echo(code.program(operation, code.Connection(self.flags.context, self.flags.base_url)))
        return True

    def show_entity(
        self, operation: code.Operation, card: Callable[[Record], RenderableType] | None = None
    ) -> None:
        """Do the operation and print the entity it answers with."""
        if not self.prints_code(operation):
            self.print_entity(record_of(self.ask(operation)), card)

    def print_entity(self, entity: Any, card: Callable[[Record], RenderableType] | None = None) -> None:
        """Print one entity: a card for people if there is one, else a document."""
        wanted = self.entity_format
        if wanted == "table" and card is not None:
            self._draw(card(entity))
        elif wanted == "table" and self.flags.output_format == "table" and isinstance(entity, dict):
            self._print_table([entity], list(entity), None)
        elif wanted == "yaml":
            click.echo(documents.yaml_text(entity))
        elif wanted == "raw":
            click.echo(documents.json_line(entity))
        else:
            click.echo(documents.json_text(entity))

    def print_done(self, sentence: str, document: Record) -> None:
        """Say in one line that something was done; as a document only where one was asked for."""
        if self.flags.output_format in {"json", "yaml", "raw"}:
            self.print_entity(document)
        else:
            click.echo(sentence)

    def show_list(
        self,
        operation: code.Operation,
        defaults: Sequence[str],
        paging: Paging,
        *,
        extra: tuple[str, Callable[[Record], str]] | None = None,
        empty: str = "nothing here.",
    ) -> None:
        """Do the operation and print the records of its page, or of all pages."""
        if self.prints_code(operation):
            return
        answer = self.ask(operation)
        if paging.all_pages and paging.stream:
            self._stream(self._items(answer))
            return
        if paging.all_pages:
            records, envelope = list(self._items(answer)), None
        else:
            records, envelope = self._page(answer)
        if paging.stream:
            self._stream(records)
        else:
            self.print_list(records, defaults, paging.columns, extra=extra, empty=empty, envelope=envelope)
        self._report_more(envelope)

    def print_list(
        self,
        records: Sequence[Record],
        defaults: Sequence[str],
        asked: str | None = None,
        *,
        extra: tuple[str, Callable[[Record], str]] | None = None,
        empty: str = "nothing here.",
        envelope: Record | None = None,
    ) -> None:
        """Print records in the format of this call."""
        from nemo_helix_plugin.cli.output.columns import chosen

        wanted = self.output_format
        names = chosen(asked, defaults, records)
        if wanted == "table":
            if records:
                self._print_table(records, names, extra if asked in {None, "default"} else None)
            else:
                self.report(_past_the_end(envelope) or empty)
        elif wanted == "csv":
            click.echo(documents.csv_text(records, names))
        elif wanted == "markdown":
            click.echo(documents.markdown_text(records, names))
        elif wanted == "yaml":
            click.echo(documents.yaml_text(list(records)))
        elif wanted == "raw":
            click.echo(documents.json_line(envelope if envelope is not None else list(records)))
        else:
            click.echo(documents.json_text(list(records)))

    def _print_table(
        self,
        records: Sequence[Record],
        names: Sequence[str],
        extra: tuple[str, Callable[[Record], str]] | None,
    ) -> None:
        from nemo_helix_plugin.cli.output.tables import table

        whole = self.flags.no_truncate or not self.context.truncate
        shown = terminal_width()
        self._draw(table(records, names, self.display, width=shown, extra=extra, whole=whole))

    def _draw(self, shown: RenderableType) -> None:
        from nemo_runs.drawn_tables import trimmed

        console = self.console
        with console.capture() as drawn:
            console.print(shown)
        console.file.write(trimmed(drawn.get()))

    def all_records(self, operation: code.Operation) -> list[Record]:
        """The records of all pages."""
        return list(self._items(self.ask(operation)))

    def _stream(self, records: Iterable[Record]) -> None:
        if self.output_format not in {"json", "raw"} and self.flags.output_format:
            raise click.UsageError("--stream prints JSON lines: it goes with -f json or -f raw.")
        for record in records:
            click.echo(documents.json_line(record))

    def _items(self, answer: Any) -> Iterable[Record]:
        with self.asking():
            for item in answer.items():
                yield record_of(item)

    def _page(self, answer: Any) -> tuple[list[Record], Record]:
        with self.asking():
            page = answer.page()
        records = [record_of(item) for item in page.items]
        return records, {"data": records, "pagination": record_of(page.metadata)}

    def _report_more(self, envelope: Record | None) -> None:
        pagination = (envelope or {}).get("pagination") or {}
        page, total = pagination.get("page") or 1, pagination.get("total_pages") or 1
        if page < total:
            self.report(
                f"this is page {page} of {total} ({pagination.get('total_results')} in all); "
                f"--page {page + 1} shows the next, --all-pages all of them."
            )


def _past_the_end(envelope: Record | None) -> str:
    """What is said of a page behind the last one; nothing when there is nothing on any page."""
    pagination = (envelope or {}).get("pagination") or {}
    total = pagination.get("total_results")
    if not total:
        return ""
    pages = pagination.get("total_pages") or 1
    return f"page {pagination.get('page')} is past the end: there are {total} in all, on {pages} page(s)."


def record_of(value: Any) -> Any:
    """A model as JSON would have it; anything else as it is."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list | tuple):
        return [record_of(item) for item in value]
    return value


def terminal_width() -> int | None:
    """The columns of the terminal that shows standard output; `None` when none does."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def console(*, color: bool | None, stderr: bool = False) -> Console:
    """A console for people; without a terminal it is as wide as it needs to be, and without colour."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    on_terminal = file.isatty()
    plain = color is False or bool(os.environ.get("NO_COLOR"))
    width = shutil.get_terminal_size().columns if on_terminal else 10_000
    return Console(file=file, width=width, no_color=plain, highlight=False, markup=False, emoji=False)
