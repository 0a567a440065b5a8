"""The rows of a file in any format that rows come in, one JSON line each: JSON, CSV or TSV, Parquet.

All but Parquet may be compressed. The digest of a data set is of these lines, so a packed file and the same
one unpacked are the same data.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import orjson

from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.image_data import data_url
from nemo_runs import json_lines, packed, strict_json
from nemo_runs.counts import counted

TABLES: Final = (".csv", ".tsv")
_SEPARATORS: Final = ",;\t|"
_PARQUET_ROWS: Final = 256
_BEGINNING: Final = 4096
"""Bytes of a file in which an array would begin."""
_INSTALL: Final = "pip install 'nemo-baton[datasets]'"


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbers (from 1) and rows as JSON: of a line, of the line in which a row of a table begins, of a row.

    `DataError` for what is not there or not whole, with file and line.
    """
    reader = {"table": _table_rows, "parquet": _parquet_rows, "lines": _json_rows}[kind_of(path)]
    try:
        yield from reader(path)
    except json_lines.NotJsonLinesError as error:
        raise DataError(f"{path}:{error.line}: {error}.") from None
    except packed.CannotUnpackError as error:
        raise DataError(f"{path}: {error}.") from None
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; give the JSONL file in it.") from None


def kind_of(path: Path) -> str:
    """``table``, ``parquet`` or ``lines``, by the name: ``q.csv.gz`` is a table."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in packed.SUFFIXES:
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    return "table" if last in TABLES else "parquet" if last == ".parquet" else "lines"


# JSON


def _json_rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """JSON Lines; or one array of objects, which is read as a whole, with the number of each object."""
    if not _begins_an_array(path):
        yield from json_lines.numbered_lines(path)
        return
    with packed.damage_named(), packed.open_unpacked(path) as stream:
        content = stream.read()
    try:
        rows = strict_json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8; convert it with iconv.") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: is not JSON: {error.msg} at column {error.colno}.") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}.") from None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}: value {number} of the array is not an object: {row!r:.60}.")
        yield number, json.dumps(row, ensure_ascii=False).encode()


def _begins_an_array(path: Path) -> bool:
    if path.is_dir():
        raise IsADirectoryError(path)
    with packed.damage_named(), packed.open_unpacked(path) as stream:
        begins = stream.read(_BEGINNING)
    return begins.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


# Tables of text


def _table_rows(path: Path) -> Iterator[tuple[int, bytes]]:
    csv.field_size_limit(sys.maxsize)
    with packed.damage_named(), packed.open_unpacked(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        reader = csv.reader(text, delimiter=_separator(path, text), strict=True)
        names, begins = None, 1
        try:
            for cells in reader:
                if any(cells):
                    if names is None:
                        names = _column_names(path, begins, cells)
                    else:
                        yield begins, orjson.dumps(_table_row(path, begins, names, cells))
                begins = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}:{reader.line_num}: is not a row of a table (CSV): {error}.") from None
        except UnicodeDecodeError:
            raise DataError(
                f"{path}:{begins}: is not UTF-8; export the table as CSV UTF-8, or convert it with iconv."
            ) from None


def _separator(path: Path, text: IO[str]) -> str:
    """What separates the names in the first line: the one that is there most often outside of quotes."""
    try:
        first = text.readline()
        while first and not first.strip():
            first = text.readline()
    except UnicodeDecodeError:
        raise DataError(f"{path}:1: is not UTF-8; export the table as CSV UTF-8.") from None
    text.seek(0)
    bare = "".join(part for index, part in enumerate(first.split('"')) if index % 2 == 0)
    return max(_SEPARATORS, key=bare.count) if any(mark in bare for mark in _SEPARATORS) else ","


def _column_names(path: Path, line: int, cells: Sequence[str]) -> list[str]:
    """The names in the first row; a first column without one is the index that pandas writes."""
    names = [name.strip() for name in cells]
    for number, name in enumerate(names[1:], 2):
        if not name:
            raise DataError(f"{path}:{line}: column {number} of the table has no name.")
        if name in names[: number - 1]:
            raise DataError(f"{path}:{line}: the table has two columns named {name}.")
    return names


def _table_row(path: Path, line: int, names: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(names):
        raise DataError(
            f"{path}:{line}: has {counted(len(cells), 'cell')}, and the first row names "
            f"{counted(len(names), 'column')}; put text that holds the separator in quotes."
        )
    row = dict(zip(names, cells, strict=True))
    row.pop("", None)
    return row


# Parquet


def _parquet_rows(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise DataError(f"{path}: a Parquet file needs the package pyarrow: {_INSTALL}.") from None
    if path.is_dir():
        raise IsADirectoryError(path)
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield number, json_row(row, f"{path}: row {number}")
    except (ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        words = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{path}: cannot be read as Parquet ({words}).") from None


def json_row(row: dict[str, Any], where: str) -> bytes:
    """A row of a typed table as JSON: images become data URLs, dates and decimal numbers text.

    `DataError`, which begins with ``where``, for what JSON cannot hold.
    """
    try:
        return orjson.dumps(_plain(row))
    except TypeError as error:
        raise DataError(f"{where}: has a value that JSON cannot hold ({error}).") from None


def _plain(value: Any) -> Any:
    """The value with what JSON does not know replaced."""
    if isinstance(value, dict):
        if isinstance(value.get("bytes"), bytes) and value.keys() <= {"bytes", "path"}:
            return data_url(value["bytes"]) or base64.b64encode(value["bytes"]).decode()
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return data_url(value) or base64.b64encode(value).decode()
    if type(value).__name__ == "Decimal":
        return str(value)
    return value
