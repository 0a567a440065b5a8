"""Rows regardless of what is around them: what other programs and crashes do to a file's lines costs no
answer.

A row is framed well when it is alone between two line feeds. Tools of other systems end lines with
``CR LF`` and put a byte-order mark at the start (``cat`` then has one in the middle); a crash leaves zeros,
half a row, or a row without its line feed, onto which the next one is glued. A row is whole or damaged by its
own bytes (see `nemo_gym.rollouts.output.rows`), never by these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nemo_gym.rollouts.output.rows import check_line
from nemo_runs.durable.rows import read_pieces

Whole = tuple[bytes, tuple[int, int]]
"""The bytes of a whole row and its identity: task index, rollout index."""

_BLANK: Final = b"\0 \t\r\x0b\x0c"
_BOM: Final = b"\xef\xbb\xbf"
_START: Final = b'{"_ng_task_index":'
_ENDS: Final = re.compile(rb',"_ng_crc32":"[0-9a-f]{8}"}')
_FRAMING: Final = re.compile(rb"(?:[\0 \t\r\x0b\x0c]|\xef\xbb\xbf)*").match
_MOST_ENDS: Final = 16
"""Ends to try for one start; a row that quotes more checksums of others is not looked for further."""
_JSON: Final = json.JSONDecoder()


def whole_rows(line: bytes) -> tuple[list[Whole], bytes]:
    """The whole rows between two line feeds, and what else is there (``b""``: framing)."""
    text = line if line[:1] == b"{" and line[-1:] == b"}" else _bare(line)
    if not text:
        return [], b""
    identity = check_line(text)
    if identity is not None:
        return [(text, identity)], b""
    return _taken_apart(text)


def is_whole(tail: bytes) -> bool:
    """Whether a file's last line, which lacks its line feed, holds a whole row."""
    return bool(whole_rows(tail)[0])


def read_rows(path: Path) -> Iterator[tuple[int, bytes, tuple[int, int] | None]]:
    """Line number (from 1), bytes and identity of every row; the identity of damaged bytes is ``None``.

    A torn tail is left out: its writer may be at work. Raises `FileNotFoundError` at the first step.
    """
    for number, (line, ended) in enumerate(read_pieces(path), start=1):
        rows, rest = whole_rows(line)
        for row, identity in rows:
            yield number, row, identity
        if rest and ended:
            yield number, rest, None


def _bare(text: bytes) -> bytes:
    """The text without blanks, zeros and byte-order marks around it."""
    while True:
        bare = text.strip(_BLANK).removeprefix(_BOM).removesuffix(_BOM)
        if len(bare) == len(text):
            return bare
        text = bare


def _taken_apart(text: bytes) -> tuple[list[Whole], bytes]:
    """Rows that are in one line one after the other, perhaps behind a torn one."""
    found: list[Whole] = []
    rest: list[bytes] = []
    at, loose = 0, text.decode("latin-1")  # every byte is one character
    while at < len(text):
        row = _row_at(text, loose, at)
        if row is not None:
            found.append(row)
            at += len(row[0])
        else:
            following = text.find(_START, at + 1)
            end = following if following > 0 else len(text)
            rest.append(_bare(text[at:end]))
            at = end
        framing = _FRAMING(text, at)
        at = framing.end() if framing else at
    return found, b"".join(rest)


def _row_at(text: bytes, loose: str, at: int) -> Whole | None:
    """The whole row that begins here, if one does."""
    if text.startswith(_START, at):
        for _, end in zip(range(_MOST_ENDS), _ENDS.finditer(text, at), strict=False):
            row = text[at : end.end()]
            identity = check_line(row)
            if identity is not None:
                return row, identity
    if not text.startswith(b"{", at):
        return None
    try:  # a row of another collector
        _, end_at = _JSON.raw_decode(loose, at)
    except (ValueError, RecursionError):
        return None
    row = text[at:end_at]
    identity = check_line(row)
    return None if identity is None else (row, identity)
