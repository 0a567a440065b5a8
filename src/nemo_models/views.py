"""How answers are shown: as they come, one below the other, or in two columns on a wide terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from nemo_models.conversations import AnswerView, ModelAnswer
from nemo_models.talking import shown

if TYPE_CHECKING:
    from rich.table import Table

_TWO_COLUMNS = 80
"""Columns of a terminal on which two answers fit side by side."""


class SilentView:
    """Shows nothing: the answers are printed as documents."""

    def begin(self, models: Sequence[str]) -> None:
        """See `AnswerView`."""

    def piece(self, answer: ModelAnswer, text: str) -> None:
        """See `AnswerView`."""

    def end(self, answers: Sequence[ModelAnswer]) -> None:
        """See `AnswerView`."""


class PlainView:
    """Writes answers as they come; of several models each below its name."""

    def __init__(self) -> None:
        self._several = False
        self._now: ModelAnswer | None = None

    def begin(self, models: Sequence[str]) -> None:
        """See `AnswerView`."""
        self._several, self._now = len(models) > 1, None

    def piece(self, answer: ModelAnswer, text: str) -> None:
        """See `AnswerView`."""
        if self._now is not answer:
            self._head(answer)
        click.echo(shown(text), nl=False)

    def end(self, answers: Sequence[ModelAnswer]) -> None:
        """See `AnswerView`."""
        for answer in answers:
            if answer.text == "" and not answer.error and answer.finish != "interrupted":
                self._head(answer)
        click.echo()
        for answer in answers:
            if said := remark(answer):
                click.echo(f"nemo: {said}", err=True)

    def _head(self, answer: ModelAnswer) -> None:
        if self._now is not None:
            click.echo()
        if self._several:
            click.echo(f"{answer.model}:")
        self._now = answer


class TwoColumns:
    """Draws the answers of two models side by side while they come."""

    def __init__(self) -> None:
        self._live: Any = None
        self._answers: dict[str, ModelAnswer] = {}

    def begin(self, models: Sequence[str]) -> None:
        """See `AnswerView`."""
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False, markup=False, emoji=False)
        self._answers = {model: ModelAnswer(model) for model in models}
        self._live = Live(self._table(), console=console, auto_refresh=False)
        self._live.start()

    def piece(self, answer: ModelAnswer, text: str) -> None:  # noqa: ARG002 - all of it is drawn
        """See `AnswerView`."""
        self._answers[answer.model] = answer
        self._live.update(self._table(), refresh=True)

    def end(self, answers: Sequence[ModelAnswer]) -> None:
        """See `AnswerView`."""
        self._answers = {answer.model: answer for answer in answers}
        self._live.vertical_overflow = "visible"
        self._live.update(self._table(), refresh=True)
        self._live.stop()
        for answer in answers:
            if said := remark(answer):
                click.echo(f"nemo: {said}", err=True)

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
        for name in self._answers:
            table.add_column(Text(name), ratio=1, overflow="fold")
        table.add_row(*(Text(shown(answer.text)) for answer in self._answers.values()))
        return table


def remark(answer: ModelAnswer) -> str:
    """What has to be said beside an answer; nothing of one that is whole."""
    if answer.error:
        return f"{answer.model}: {answer.error.rstrip('.')}."
    if answer.finish == "length":
        return f"the answer of {answer.model} was cut at its limit; --max-tokens sets another."
    if answer.finish == "interrupted":
        return "interrupted; the answer is as far as it came."
    return ""


def chosen(models: Sequence[str], *, silent: bool) -> AnswerView:
    """The view for this standard output."""
    if silent:
        return SilentView()
    wide = sys.stdout.isatty() and shutil.get_terminal_size().columns >= _TWO_COLUMNS
    return TwoColumns() if len(models) == 2 and wide else PlainView()
