"""Files of JSON Lines that people bring: one object per line, read alike wherever rows are read.

A number or a text is the same to the last digit in an evaluation and in a training, or it is refused.
A file of another kind is refused in words that say which kind it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from nemo_runs import packed, strict_json
from nemo_runs.counts import counted

_BOM: Final = b"\xef\xbb\xbf"
_EXPORT: Final = "such as an Excel workbook; export its sheet as CSV UTF-8, or write its rows as JSON Lines"
_KINDS: Final = (
    (b"\x04\x22\x4d\x18", "it is compressed with LZ4; unpack it first: lz4 -d"),
    (b"PK\x03\x04", "it is a ZIP archive; unpack it first: unzip"),
    (b"\xd0\xcf\x11\xe0", f"it is a document of an office program, {_EXPORT}"),
    (b"%PDF", "it is a PDF document; write its rows as JSON Lines"),
    (b"SQLite format 3\x00", "it is an SQLite database; write the rows of a table as JSON Lines"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive; unpack it first: 7z x"),
    (b"Rar!\x1a\x07", "it is a RAR archive; unpack it first: unrar x"),
    (b"<?xml", "it is an XML document; write its rows as JSON Lines"),
    (b"PAR1", "it is a Parquet table; write its rows as JSON Lines, or name it .parquet in an evaluation"),
    (b"ARROW1", "it is an Arrow table; write its rows as JSON Lines"),
    (b"\xff\xfe\x00\x00", "it is text in UTF-32; convert it: iconv -f UTF-32 -t UTF-8"),
    (b"\x00\x00\xfe\xff", "it is text in UTF-32; convert it: iconv -f UTF-32 -t UTF-8"),
    (b"\xff\xfe", "it is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "it is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
    (b"{\x00", "it is text in UTF-16; convert it: iconv -f UTF-16LE -t UTF-8"),
    (b"\x00{", "it is text in UTF-16; convert it: iconv -f UTF-16BE -t UTF-8"),
    (b"\x00", "it begins with null bytes: it was not written whole"),
    (b"version https://git-lfs", "it is a pointer of Git LFS, not the file itself; run git lfs pull"),
)
_OFFICE: Final = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetypeapplication/vnd.oasis")
"""Names that the first entry of a ZIP archive has where the archive is one document."""
_ENTRY_NAME: Final = 30
"""Where the name of the first entry of a ZIP archive begins, in bytes."""
_TAR: Final = slice(257, 262)
_PAGES: Final = (b"<!doctype html", b"<html")
_LONG: Final = b"0" * (strict_json.SHORT + 1)
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"000000000")


class NotJsonLinesError(ValueError):
    """A file or a line that holds no row; the message is a phrase without the file's name."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line
        """Counted from 1."""


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line numbers (from 1) and lines, cut at line feeds alone; blank lines, CR and a BOM are left out.

    A compressed file (gzip, Zstandard, bzip2, xz) is read as what is in it. Raises `NotJsonLinesError` for a
    file of another kind, and `OSError` when it cannot be read.
    """
    number = 0
    try:
        with packed.damage_named(), packed.open_unpacked(path) as stream:
            for number, line in enumerate(stream, 1):
                if number == 1:
                    _check_kind(line)
                    line = line.removeprefix(_BOM)  # noqa: PLW2901 - the mark is not part of the first row
                if text := line.strip():
                    yield number, text
    except packed.CannotUnpackError as error:
        raise NotJsonLinesError(number + 1, str(error)) from None


def parse_row(line: bytes, number: int) -> dict[str, Any]:
    """The object in a line; raises `NotJsonLinesError` saying what the line holds instead.

    Whole numbers beyond 64 bits, NaN and infinities are refused, since not every reader keeps them, and so
    is a key that one object has twice, since readers keep one of the two values and say nothing.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise NotJsonLinesError(number, _not_utf8(line, error)) from None
    try:
        value = strict_json.loads(text)
    except json.JSONDecodeError as error:
        raise NotJsonLinesError(number, _not_json(text, number, error)) from None
    except ValueError as error:
        raise NotJsonLinesError(number, str(error)) from None
    if not isinstance(value, dict):
        raise NotJsonLinesError(number, _no_object(value, number))
    return value


def has_long_number(line: bytes) -> bool:
    """Whether a faster reader might change a whole number of this line, so that `parse_row` must see it."""
    return _LONG in line.translate(_DIGITS_ALIKE)


def has_each_key_once(line: bytes, row: dict[str, Any]) -> bool:
    """Whether a row that a faster reader found in this line surely lost no key; else `parse_row` must see it.

    Every key of a line is followed by a colon, at once where no blank is before a colon. Texts may only
    add to that count, so it is the number of keys of the row where none was lost.
    """
    if b" :" in line or b"\t:" in line or b"\r:" in line:
        return False
    return line.count(b'":') == len(row) + _inner_keys(row.values())


def _inner_keys(values: Iterable[Any]) -> int:
    """The keys of all objects in some values that a reader of JSON made."""
    count = 0
    for value in values:
        kind = type(value)
        if kind is dict:
            count += len(value) + _inner_keys(value.values())
        elif kind is list:
            count += _inner_keys(value)
    return count


def _check_kind(start: bytes) -> None:
    problem = _kind(start)
    if problem:
        raise NotJsonLinesError(1, f"this file is not JSON Lines: {problem}")


def _kind(start: bytes) -> str | None:
    """What a file is that begins with this line, and what to do with it; ``None`` where it may hold rows."""
    if start.startswith(b"PK") and start[_ENTRY_NAME:].startswith(_OFFICE):
        return f"it is a document of an office program, {_EXPORT}"
    if start[_TAR] == b"ustar":
        return "it is a tar archive; unpack it first: tar -xf"
    if start.lstrip().lower().startswith(_PAGES):
        return "it is a web page; an address that needs a login, or that has a viewer, gives one"
    return next((problem for mark, problem in _KINDS if start.startswith(mark)), None)


def _not_utf8(line: bytes, error: UnicodeDecodeError) -> str:
    return (
        f"is not UTF-8: it has the byte 0x{line[error.start]:02x} after {error.start} others; "
        "if the file is in Latin-1, convert it: iconv -f LATIN1 -t UTF-8"
    )


def _not_json(text: str, number: int, error: json.JSONDecodeError) -> str:
    if number == 1 and text.rstrip() in ("[", "{", "[{"):
        kind = "array" if text.startswith("[") else "document"
        remedy = _REMEDY if kind == "array" else "take the list of its rows out: jq -c '.NAME[]'"
        return f"this file is not JSON Lines: it is one JSON {kind} over several lines; {remedy}"
    if number == 1 and text[0] not in "{[\"'" and ("," in text or "\t" in text or ";" in text):
        start = repr(text[:60])
        return (
            f"this file is not JSON Lines: it begins like a table (CSV): {start}; "
            "write each row as an object, or name it .csv or .tsv in an evaluation"
        )
    if error.msg == "Extra data":
        return f"is not one JSON object: more follows at column {error.colno}; give each one its own line"
    return f"is not JSON: {error.msg} at column {error.colno}"


_REMEDY: Final = "put each row on a line of its own: jq -c '.[]'"
_NAMES: Final = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def _no_object(value: object, number: int) -> str:
    if number == 1 and isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return (
            f"this file is not JSON Lines: it is one JSON array of {counted(len(value), 'object')}; {_REMEDY}"
        )
    return f"must be an object in braces, not {_NAMES.get(type(value), 'a number')}"
