"""Datasets: JSON Lines files, each row checked before anything is loaded. Nothing of a library is needed
here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_engines.errors import BadSpecError, DataError
from nemo_engines.likeness import Likeness
from nemo_engines.spec import EngineSpec

Row = dict[str, Any]
Shape = Callable[[Row], Row]
"""Makes of a row what the library trains on; `ValueError` with a phrase for a row that cannot be used."""

_NAMES = {"training": ("train.jsonl", "training.jsonl"), "validation": ("validation.jsonl", "val.jsonl")}


@dataclass(frozen=True, slots=True)
class Dataset:
    """One file that was read."""

    file: Path
    rows: list[Row]
    digest: str

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
        names = ", ".join(file.name for file in found) or "no .jsonl file"
        raise BadSpecError(f"the {part} data folder {path} has {names}; it must have {_NAMES[part][0]}")
    return found[0]


def read_dataset(path: Path, part: str, shape: Shape, *, alike: bool = True) -> Dataset:
    """Read and shape every row; `DataError` names the file and the line of the first that is not right.

    ``alike``: the library makes a table of the rows, so that each place must hold one kind of value.
    """
    file = dataset_file(path, part)
    digest, likeness = hashlib.sha256(), Likeness()
    rows: list[Row] = []
    try:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                digest.update(line)
                if not line.strip():
                    continue
                rows.append(_row(line, shape, f"{file}, line {number}"))
                if alike:
                    _check_likeness(likeness, rows[-1], number, file)
    except OSError as error:
        raise BadSpecError(f"the {part} data {file} cannot be read: {error.strerror}") from error
    if not rows:
        raise DataError(f"{file}: has no rows")
    return Dataset(file, rows, f"sha256:{digest.hexdigest()}")


def _check_likeness(likeness: Likeness, row: Row, number: int, file: Path) -> None:
    try:
        likeness.check(row, number)
    except ValueError as error:
        raise DataError(f"{file}, line {number}: {error}") from error


def _row(line: bytes, shape: Shape, where: str) -> Row:
    try:
        value = json.loads(line)
    except RecursionError as error:
        raise DataError(f"{where}: is not JSON that can be read: its brackets are too deep") from error
    except ValueError as error:
        raise DataError(f"{where}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{where}: must be an object")
    if b"\\u" in line and _is_no_text(value):
        raise DataError(f"{where}: holds half of a character (an escape such as \\ud800 without the other)")
    try:
        return shape(value)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error


def _is_no_text(value: Row) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def shape_for(spec: EngineSpec, first: Row) -> Shape:
    """How the rows of SFT and DPO data are read; for ``auto`` the first row decides."""
    if spec.method == "dpo":
        return preference
    if spec.data.prompt_template is not None:
        return template_shape(spec.data.prompt_template)
    chosen = spec.data.format
    if chosen == "auto":
        chosen = "chat" if "messages" in first else "prompt_completion" if "prompt" in first else "text"
    if chosen == "chat":
        return chat
    return prompt_completion if chosen == "prompt_completion" else text_shape(spec.data.text_field)


def first_row(path: Path, part: str) -> Row:
    """The first row as it stands; what is wrong with it is said by `read_dataset`."""
    try:
        with dataset_file(path, part).open("rb") as stream:
            value = json.loads(next((line for line in stream if line.strip()), b"{}"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def chat(row: Row) -> Row:
    """A row with ``messages`` as the OpenAI API has them; the assistant's are learned."""
    check_messages(row.get("messages"), "messages")
    if not any(message["role"] == "assistant" for message in row["messages"]):
        raise ValueError("'messages' has no message of the role assistant, so there is nothing to learn")
    if row.get("tools"):
        _check_objects(row["tools"], "tools")
    return {name: row[name] for name in ("messages", "tools") if row.get(name)}


def prompt_completion(row: Row) -> Row:
    """A row with ``prompt`` and ``completion``, both texts or both lists of messages."""
    return _alike(row, ("prompt", "completion"))


def preference(row: Row) -> Row:
    """A row with ``prompt``, ``chosen`` and ``rejected``, all texts or all lists of messages."""
    renamed = {
        {"chosen_response": "chosen", "rejected_response": "rejected"}.get(k, k): v for k, v in row.items()
    }
    return _alike(renamed, ("prompt", "chosen", "rejected"))


def text_shape(field: str) -> Shape:
    """Rows that are one text each."""

    def shape(row: Row) -> Row:
        return {"text": _text(row, field)}

    return shape


def template_shape(template: str) -> Shape:
    """Rows whose fields are put into a template; what its last place holds is learned."""
    from nemo_gym.rollouts.prompts import check_template, fill  # noqa: PLC0415 - only some runs need it

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

    def shape(row: Row) -> Row:
        try:
            return {"prompt": fill(head, row), "completion": fill(tail, row)}
        except KeyError as error:
            raise ValueError(f"lacks '{error.args[0]}', which data.prompt_template needs") from None

    return shape


def _alike(row: Row, names: tuple[str, ...]) -> Row:
    for name in names:
        if isinstance(row.get(name), list):
            check_messages(row[name], name)
        else:
            _text(row, name)
    if len({isinstance(row[name], list) for name in names}) != 1:
        raise ValueError(f"{' and '.join(map(repr, names))} must be all texts or all lists of messages")
    return {name: row[name] for name in names}


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if value is None:
        raise ValueError(f"lacks '{name}'")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"'{name}' must be a text that is not empty")
    return value


def check_messages(value: object, name: str) -> None:
    """Messages as chat templates take them; `ValueError` with a phrase for what is none."""
    if value is None:
        raise ValueError(f"lacks '{name}'")
    if not isinstance(value, list) or not value:
        raise ValueError(f"'{name}' must be a list of messages that is not empty")
    for index, message in enumerate(value):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(f"'{name}[{index}]' must be an object with a role")  # noqa: TRY004 - as for all rows
        if not isinstance(message.get("content"), str) and not message.get("tool_calls"):
            raise ValueError(f"'{name}[{index}]' must have a text as content")
        if message.get("tool_calls"):
            _check_objects(message["tool_calls"], f"{name}[{index}].tool_calls")


def _check_objects(value: object, name: str) -> None:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"'{name}' must be a list of objects")
