"""Datasets: JSON Lines files, each row checked before anything is loaded. Nothing of a library is needed
here."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_engines.data import foreign_rows
from nemo_engines.data.messages import check_learnable, check_objects, check_row, conversation
from nemo_engines.data.prompts import preference, prompt_completion, text
from nemo_engines.errors import BadSpecError, TrainingDataError
from nemo_engines.spec import EngineSpec
from nemo_runs import json_lines

__all__ = ["Dataset", "Row", "Rows", "Shape", "preference", "prompt_completion", "read_dataset", "shape_for"]

Row = dict[str, Any]
Shape = Callable[[Row], Row]
"""Makes of a row what is trained on; `ValueError` with a phrase for a row that cannot be used."""

_NAMES = {"training": ("train.jsonl", "training.jsonl"), "validation": ("validation.jsonl", "val.jsonl")}
_LIKE_ROWS = (".json", ".gz", ".zst", ".csv", ".tsv", ".parquet", ".arrow", ".txt", ".zip", ".ndjson")
_WITH_MESSAGES = ("tools", "chat_template_kwargs")
_USED = {
    "chat": frozenset({"messages", *_WITH_MESSAGES}),
    "prompt_completion": frozenset({"prompt", "completion", *_WITH_MESSAGES}),
    "dpo": frozenset(
        {"prompt", "chosen", "rejected", "chosen_response", "rejected_response", *_WITH_MESSAGES}
    ),
}


class Rows(list[Row]):
    """Rows with their places."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.lines: list[int] = []
        """The line of each row, counted from 1."""

    def place(self, index: int) -> str:
        """File and line of a row, as messages name it."""
        return f"{self.file}, line {self.lines[index]}"

    def label(self, index: int) -> int | str:
        """What lists of rows call one."""
        return self.lines[index]


@dataclass(frozen=True, slots=True)
class Dataset:
    """One file that was read."""

    file: Path
    rows: Rows
    digest: str
    unused: Mapping[str, int] = field(default_factory=dict)
    """Keys of which nothing is learned, and in how many rows they are."""

    @property
    def identity(self) -> str:
        """Name, digest and size, as it is compared before training goes on."""
        return f"{self.digest} ({len(self.rows)} rows)"


def dataset_file(path: Path, part: str) -> Path:
    """The file of a dataset that is given as file or folder."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise BadSpecError(f"the {part} data {path} is neither a file nor a folder")
    for name in _NAMES[part]:
        if (path / name).is_file():
            return path / name
    # a pipe of that name would be waited for
    found = sorted(file for file in path.glob("*.jsonl") if file.is_file())
    if len(found) != 1:
        others = sorted(file.name for file in path.iterdir() if file.suffix in _LIKE_ROWS)
        beside = f" beside {', '.join(others[:5])}" if others else ""
        names = ", ".join(file.name for file in found) or f"no .jsonl file{beside}"
        raise BadSpecError(f"the {part} data folder {path} has {names}; it must have {_NAMES[part][0]}")
    return found[0]


def read_dataset(
    path: Path, part: str, shape: Shape, *, alike: bool = True, uses: frozenset[str] | None = None
) -> Dataset:
    """Read and shape every row; `TrainingDataError` names the file and the line of the first that is not
    right.

    ``alike``: whether all rows must be written one way, as texts or as messages. ``uses``: the keys that the
    shape reads, for saying which ones are not used; ``None``: all of them may be.
    """
    file = dataset_file(path, part)
    rows, unused = Rows(file), Counter[str]()
    try:
        for number, line in json_lines.numbered_lines(file):
            row = json_lines.parse_row(line, number)
            unused.update(name for name in row if uses is not None and name not in uses)
            rows.append(shape(row))
            rows.lines.append(number)
            if alike:
                _check_schema(rows)
        digest = _digest(file)
    except json_lines.NotJsonLinesError as error:
        raise TrainingDataError(f"{file}, line {error.line}: {error}") from error
    except ValueError as error:
        raise TrainingDataError(f"{file}, line {number}: {error}") from error
    except OSError as error:
        raise BadSpecError(f"the {part} data {file} cannot be read: {error.strerror}") from error
    if not rows:
        raise TrainingDataError(f"{file}: has no rows")
    return Dataset(file, rows, f"sha256:{digest}", dict(unused))


def read_for(spec: EngineSpec, path: Path, part: str, shape: Shape | None = None) -> Dataset:
    """Read a dataset as a spec has it; ``shape`` is that of the rewards, for GRPO."""
    first = first_row(path, part)
    return read_dataset(
        path,
        part,
        shape or shape_for(spec, first),
        alike=spec.engine != "automodel",
        uses=uses_of(spec, first),
    )


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_schema(rows: Rows) -> None:
    first, last = rows[0], rows[-1]
    for name in ("prompt", "text", "messages"):
        if isinstance(first.get(name), list) != isinstance(last.get(name), list):
            kinds = {True: "a list of messages", False: "a text"}
            mine, other = (kinds[isinstance(row.get(name), list)] for row in (last, first))
            raise ValueError(
                f"'{name}' is {mine}, and in line {rows.lines[0]} it is {other}; write all rows alike"
            )


def shape_for(spec: EngineSpec, first: Row) -> Shape:
    """How the rows of SFT and DPO data are read; for ``auto`` the first row decides."""
    if spec.data.prompt_template is not None and spec.method != "dpo":
        return template_shape(spec.data.prompt_template)
    kind = _kind(spec, first)
    if kind == "text":
        return text_shape(spec.data.text_field)
    made = {"dpo": preference, "chat": chat, "prompt_completion": prompt_completion}[kind]
    last_only = kind == "chat" and spec.data.learned_turns == "last"

    def shape(row: Row) -> Row:
        check_row(row)
        try:
            found = made(row)
        except ValueError as error:
            raise ValueError(f"{error}{foreign_rows.hint(row, kind)}") from None
        foreign_rows.check_context(row, kind)
        beside = _with_messages(row)
        if beside and isinstance(found.get("prompt"), str):
            raise ValueError(f"'{min(beside)}' needs messages: a text is learned as it is")
        return _last_learned(found | beside) if last_only else found | beside

    return shape


def _last_learned(row: Row) -> Row:
    """A conversation of which the assistant's last message alone is learned."""
    answers = [index for index, one in enumerate(row["messages"]) if one["role"] == "assistant"]
    if answers[-1] in row.get("unlearned", ()):
        raise ValueError(
            "the assistant's last message is not to be learned, and no other is; leave the row out"
        )
    return {**row, "unlearned": sorted({*row.get("unlearned", ()), *answers[:-1]})}


def uses_of(spec: EngineSpec, first: Row) -> frozenset[str] | None:
    """The keys of rows that are read for learning; ``None`` where the spec or a verifier chooses them."""
    if spec.method == "grpo" or spec.data.prompt_template is not None:
        return None
    kind = _kind(spec, first)
    return frozenset({spec.data.text_field}) if kind == "text" else _USED[kind]


def _kind(spec: EngineSpec, first: Row) -> str:
    if spec.method == "dpo":
        return "dpo"
    if spec.data.format != "auto":
        return spec.data.format
    return "chat" if "messages" in first else "prompt_completion" if "prompt" in first else "text"


def first_row(path: Path, part: str) -> Row:
    """The first row as it is; what is wrong with it is said by `read_dataset`."""
    try:
        for number, line in json_lines.numbered_lines(dataset_file(path, part)):
            return json_lines.parse_row(line, number)
    except (OSError, ValueError):
        return {}
    return {}


def chat(row: Row) -> Row:
    """A row with ``messages`` as the OpenAI API has them."""
    found = conversation(row.get("messages"), "messages")
    answers = [index for index, message in enumerate(found.messages) if message["role"] == "assistant"]
    if not answers:
        raise ValueError("'messages' has no message of the role assistant, so there is nothing to learn")
    if set(answers) <= set(found.unlearned):
        raise ValueError("no message of the assistant is to be learned; leave the row out")
    check_learnable(found, "messages")
    unlearned = {"unlearned": found.unlearned} if found.unlearned else {}
    return {"messages": found.messages, **unlearned, **_with_messages(row)}


def _with_messages(row: Row) -> Row:
    """What goes to the chat template beside the messages: the row's own tools, and the template's options."""
    made: Row = {}
    if row.get("tools"):
        tools = row["tools"]
        if isinstance(tools, str):
            tools = _json_text(tools)
        check_objects(tools, "tools")
        made["tools"] = tools
    if row.get("chat_template_kwargs"):
        if not isinstance(row["chat_template_kwargs"], dict):
            raise ValueError("'chat_template_kwargs' must be an object")
        made["chat_template_kwargs"] = row["chat_template_kwargs"]
    return made


def _json_text(tools: str) -> Any:
    """Tools that are written as JSON text."""
    try:
        return json_lines.parse_row(f'{{"tools": {tools}}}'.encode(), 0)["tools"]
    except ValueError as error:
        raise ValueError(f"'tools' must be a list of objects, or JSON text of one: {error}") from None


def text_shape(name: str) -> Shape:
    """Rows that are one text each."""

    def shape(row: Row) -> Row:
        check_row(row, frozenset({name}))
        try:
            return {"text": text(row, name)}
        except ValueError as error:
            raise ValueError(f"{error}{foreign_rows.hint(row, 'text') if name == 'text' else ''}") from None

    return shape


def template_shape(template: str) -> Shape:
    """Rows whose fields are put into a template; what its last place holds is learned."""
    from nemo_gym.rollouts.run_config.prompts import check_template, fill  # noqa: PLC0415 - only some runs need it

    try:
        segments = check_template(template)
    except ValueError as error:
        raise BadSpecError(f"data.prompt_template cannot be used: {error}") from error
    places = [index for index, (_, name) in enumerate(segments) if name is not None]
    if len(places) < 2:
        raise BadSpecError("data.prompt_template needs two places at least, as in '{prompt} {completion}'")
    last = places[-1]
    literal, name = segments[last]
    head, tail = [*segments[:last], (literal, None)], [("", name), *segments[last + 1 :]]
    uses = frozenset(name for _, name in segments if name is not None)

    def shape(row: Row) -> Row:
        check_row(row, uses)
        try:
            made = {"prompt": fill(head, row), "completion": fill(tail, row)}
        except KeyError as error:
            raise ValueError(f"lacks '{error.args[0]}', which data.prompt_template needs") from None
        if not str(row.get(str(name))).strip():
            raise ValueError(f"'{name}' is empty, and it is what is to be learned; leave the row out")
        return made

    return shape
