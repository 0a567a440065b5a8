"""Rows as tokens, each with whether it is learned. Nothing of a library is needed: the tokenizer is given.

Every row is written by itself, so that nothing of it depends on other rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from nemo_engines.data.chat_templates import TemplateWriter, common
from nemo_engines.data.dropped_text import Losses
from nemo_engines.data.rows import Row, Rows
from nemo_engines.errors import BadSpecError, TrainingDataError
from nemo_engines.spec import EngineSpec
from nemo_runs.counts import counted

Made = TypeVar("Made")


class Tokens(NamedTuple):
    """One row, whole."""

    ids: list[int]
    learned: list[bool]


class Pair(NamedTuple):
    """A prompt, and two answers to it."""

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]


class Cut(NamedTuple):
    """What a longest length takes away from rows."""

    left_out: list[int]
    """Indices of the rows that are not trained on: nothing is left to learn, or long rows are dropped."""
    shortened: list[int]
    """Indices of the rows that lose their end."""
    tokens: int
    """Tokens that are lost, those of rows left out among them."""

    @property
    def rows(self) -> list[int]:
        """All rows that are too long, in their order."""
        return sorted({*self.left_out, *self.shortened})


def made_of(rows: Sequence[Row], make: Callable[[Row], Made]) -> list[Made]:
    """What is made of each row; `TrainingDataError` names file and line of one that cannot be written."""
    found = []
    for index, row in enumerate(rows):
        try:
            found.append(make(row))
        except ValueError as error:
            place = rows.place(index) if isinstance(rows, Rows) else f"row {index + 1}"
            raise TrainingDataError(f"{place}: {error}") from error
    return found


def tokens(writer: TemplateWriter, row: Row) -> Tokens:
    """A row of SFT: a text, a prompt with its completion, or a conversation."""
    if isinstance(row.get("messages"), list):
        ids, learned = writer.conversation(row["messages"], row)
    elif isinstance(row.get("prompt"), list):
        both = [*row["prompt"], *row["completion"]]
        ids, learned = writer.conversation(both, row)
        start = common(writer.conversation(row["prompt"], row, asks=True).ids, ids)
        learned = [wanted and index >= start for index, wanted in enumerate(learned)]
    else:
        prompt = str(row.get("prompt", ""))
        ids = writer.text(prompt + writer.ended(str(row.get("completion", row.get("text", "")))))
        start = common(writer.text(prompt), ids) if prompt else 0
        learned = [index >= start for index in range(len(ids))]
    return Tokens(ids, learned)


def pair(writer: TemplateWriter, row: Row) -> Pair:
    """A row of DPO."""
    prompt = row["prompt"]
    if isinstance(prompt, list):
        asked = writer.conversation(prompt, row, asks=True).ids
        answers = [writer.conversation([*prompt, *row[name]], row).ids for name in ("chosen", "rejected")]
    else:
        asked = writer.text(prompt)
        answers = [writer.text(prompt + writer.ended(row[name])) for name in ("chosen", "rejected")]
    start = min(common(asked, answer) for answer in answers)
    return Pair(asked[:start], *(answer[start:] for answer in answers))


def unwritten(writer: TemplateWriter, rows: Sequence[Row]) -> Losses:
    """What of the rows' messages the chat template does not write."""
    found = Losses()
    for index, row in enumerate(rows):
        found.add(_unwritten(writer, row), _line(rows, index))
    return found


def _unwritten(writer: TemplateWriter, row: Row) -> Counter[str]:
    if isinstance(row.get("messages"), list):
        return writer.unwritten(row["messages"], row)
    prompt = row.get("prompt")
    if not isinstance(prompt, list):
        return Counter()
    if "chosen" in row:
        rejected = writer.unwritten([*prompt, *row["rejected"]], row, start=len(prompt))
        return writer.unwritten([*prompt, *row["chosen"]], row) + rejected
    return writer.unwritten([*prompt, *row.get("completion", ())], row)


def without_end(writer: TemplateWriter, rows: Sequence[Row], found: Sequence[Tokens | Pair]) -> list[int]:
    """Indices of the rows whose last answer is learned without a token that ends it."""
    return [
        index
        for index, (row, made) in enumerate(zip(rows, found, strict=True))
        if any(ids and not writer.ends(ids) for ids in _last_answers(row, made))
    ]


def _last_answers(row: Row, made: Tokens | Pair) -> Iterator[list[int]]:
    if isinstance(made, Pair):
        if isinstance(row["prompt"], list):
            yield from (made.chosen, made.rejected)
        return
    messages = row.get("messages")
    if isinstance(row.get("prompt"), list):
        messages = [*row["prompt"], *row["completion"]]
    if not isinstance(messages, list):
        return
    last = len(messages) - 1
    if messages[last]["role"] == "assistant" and last not in row.get("unlearned", ()):
        yield [token for token, wanted in zip(made.ids, made.learned, strict=True) if wanted]


def cut_tokens(found: Sequence[Tokens], longest: int, *, drops: bool = False) -> Cut:
    """What is cut off the ends of rows of SFT; ``drops``: rows that are too long are left out instead."""
    left_out = [index for index, row in enumerate(found) if not any(row.learned[:longest])]
    return _cut(left_out, [len(row.ids) for row in found], longest, drops=drops)


def cut_pairs(found: Sequence[Pair], longest: int, *, drops: bool = False) -> Cut:
    """What is cut off the ends of pairs, each counted with its longer answer; ``drops`` as above."""
    left_out = [index for index, row in enumerate(found) if len(row.prompt) >= longest]
    lengths = [len(row.prompt) + max(len(row.chosen), len(row.rejected)) for row in found]
    return _cut(left_out, lengths, longest, drops=drops)


def _cut(left_out: list[int], lengths: Sequence[int], longest: int, *, drops: bool) -> Cut:
    if drops:
        left_out = sorted({*left_out, *(index for index, length in enumerate(lengths) if length > longest)})
    gone = set(left_out)
    shortened = [index for index, length in enumerate(lengths) if length > longest and index not in gone]
    lost = sum(lengths[index] for index in gone) + sum(lengths[index] - longest for index in shortened)
    return Cut(left_out, shortened, lost)


def cut_warnings(spec: EngineSpec, part: str, rows: Sequence[Row], cut: Cut) -> list[str]:
    """Sentences about what the longest length takes away; `BadSpecError` when it takes everything, or where
    rows may not be too long."""
    longest, of = spec.max_seq_length, f"of {len(rows)} {part} rows"
    if spec.data.overlong == "error" and cut.rows:
        raise TrainingDataError(
            f"{len(cut.rows)} {of} are longer than max_seq_length {longest}, and overlong is 'error': "
            f"lines {lines_of(rows, cut.rows)}"
        )
    short = f"max_seq_length {longest} leaves nothing to learn of them"
    if spec.data.overlong == "drop":
        short = f"they are longer than max_seq_length {longest}, or nothing is to be learned of them"
    if len(cut.left_out) == len(rows):
        raise BadSpecError(f"none of the {len(rows)} {part} rows can be used: {short}; raise it")
    said = []
    if cut.left_out and not spec.batch.packing:
        said.append(f"{len(cut.left_out)} {of} are left out: {short}; lines {lines_of(rows, cut.left_out)}")
    if cut.shortened:
        where = lines_of(rows, cut.shortened)
        said.append(f"{len(cut.shortened)} {of} lose their end to max_seq_length {longest}; lines {where}")
    return said


def kept(made: Sequence[Made], cut: Cut) -> list[Made]:
    """What was made of the rows that are not left out."""
    gone = set(cut.left_out)
    return [one for index, one in enumerate(made) if index not in gone]


def template_warnings(
    writer: TemplateWriter, rows: Sequence[Row], found: Sequence[Tokens | Pair]
) -> list[str]:
    """Sentences about what the rows say and the chat template does not write, one for each kind.

    ``found`` is empty where nothing of the rows themselves is learned.
    """
    said = [
        f"the model's chat template leaves out '{kind.text}' ({kind.times} in all): {len(kind.lines)} of "
        f"{counted(len(rows), 'row has', 'rows have')} it, the first in line {kind.lines[0]}"
        for kind in unwritten(writer, rows).kinds()
    ]
    open_ended = without_end(writer, rows, found) if found else []
    if open_ended:
        first = _line(rows, open_ended[0])
        said.append(
            f"the model's chat template ends the last answer of {len(open_ended)} of "
            f"{counted(len(rows), 'row')} with "
            f"no special token, so that ending it is not learned; the first in line {first}"
        )
    return said


def lines_of(rows: Sequence[Row], indices: Iterable[int], most: int = 10) -> str:
    """The lines of some rows, for people: the first few, and how many more."""
    numbers = [_line(rows, index) for index in indices]
    shown = ", ".join(map(str, numbers[:most]))
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"


def _line(rows: Sequence[Row], index: int) -> int | str:
    return rows.label(index) if isinstance(rows, Rows) else index + 1


def columns(found: Sequence[Tokens]) -> dict[str, list[Any]]:
    """Rows of SFT as the columns that trainers take: ids, and labels of which -100 is not learned."""
    return {
        "input_ids": [row.ids for row in found],
        "labels": [
            [token if wanted else -100 for token, wanted in zip(row.ids, row.learned, strict=True)]
            for row in found
        ],
    }
