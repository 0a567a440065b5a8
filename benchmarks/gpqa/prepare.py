"""Makes the GPQA Diamond rows from the public data set, or from a local file with the same columns."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.errors import DataError

DATA_SET, SUBSET = "Idavidrein/gpqa", "gpqa_diamond"
LETTERS = "ABCD"
RIGHT = "Correct Answer"
WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def prepare(output: Path, source: str | None = None) -> None:
    """Write one row a question, in the order of the data set.

    ``source`` is a CSV, JSONL or Parquet file to read instead of the public data set.
    `DataError` when the data cannot be had, or lacks a column.
    """
    with output.open("w", encoding="utf-8") as stream:
        for number, record in enumerate(load_questions(source), 1):
            stream.write(json.dumps(make_row(record, number), ensure_ascii=False) + "\n")


def load_questions(source: str | None) -> Iterable[Mapping[str, Any]]:
    """Records of the public data set, or of a file; a table as its text, nothing read as a number or null."""
    if source is not None and not (_kind(source) and Path(source).is_file()):
        raise DataError(f"prepare_script_args.source: {source} is not a CSV, JSONL or Parquet file.")
    if source is not None and _kind(source) == "csv":
        return _read_table(Path(source))
    try:
        import datasets  # noqa: PLC0415 - it takes seconds to import
    except ImportError:
        raise DataError("gpqa needs the datasets library: pip install 'nemo-baton[datasets]'.") from None
    if source is not None:
        return _load_file(datasets, source)
    try:
        loaded = datasets.load_dataset(DATA_SET, SUBSET, split="train")
    except Exception as error:  # the library raises whatever its transports raise
        raise DataError(
            f"the data set {DATA_SET} cannot be had ({type(error).__name__}): it needs the network, its "
            "terms accepted and HF_TOKEN set, or +prepare_script_args.source=FILE with the same columns."
        ) from error
    return list(loaded)


def _kind(source: str) -> str | None:
    kinds = {".csv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
    return kinds.get(Path(source).suffix.lower())


def _load_file(datasets: Any, source: str) -> Iterable[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="gpqa-") as cache:
        try:
            loaded = datasets.load_dataset(_kind(source), data_files=source, split="train", cache_dir=cache)
        except Exception as error:  # the same
            raise DataError(f"{source}: cannot be read ({type(error).__name__}).") from error
        return list(loaded)


def _read_table(source: Path) -> list[Mapping[str, Any]]:
    """A CSV file as spreadsheets write it: any of their separators, a byte order mark or none."""
    try:
        with source.open(encoding="utf-8-sig", newline="") as stream:
            header = stream.readline()
            separator = max(",;\t", key=header.count)
            stream.seek(0)
            return list(csv.DictReader(stream, delimiter=separator, strict=True))
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: is not UTF-8; export it as CSV UTF-8.") from error
    except (OSError, csv.Error) as error:
        raise DataError(f"{source}: cannot be read: {error}.") from error


def make_row(record: Mapping[str, Any], number: int = 1) -> dict[str, Any]:
    """A record of the data set as a multiple-choice row.

    The order of the options depends on the question's text alone, so that it is the same on every machine.
    """
    question = _text(record, "Question", number)
    options = [_text(record, column, number) for column in (RIGHT, *WRONG)]
    order = list(range(len(options)))
    random.Random(int(hashlib.md5(question.encode(), usedforsecurity=False).hexdigest(), 16)).shuffle(order)
    lettered = [{letter: options[index]} for letter, index in zip(LETTERS, order, strict=True)]
    options_text = "\n".join(f"{letter}: {text}" for option in lettered for letter, text in option.items())
    return {
        "question": question,
        "options_text": options_text,
        "problem": f"{question}\n\n{options_text}",
        "options": lettered,
        "expected_answer": LETTERS[order.index(0)],
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, question)),
    }


def _text(record: Mapping[str, Any], column: str, number: int) -> str:
    value = record.get(column)
    if value is None or not str(value).strip():
        known = "" if column in record else f"; its columns are {', '.join(map(str, [*record][:12]))}"
        raise DataError(f"record {number} of the GPQA data has no '{column}'{known}.")
    return str(value).strip()
