"""Files that people bring are read alike everywhere, or refused in words that say what they are."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_runs import json_lines
from nemo_runs.json_lines import NotJsonLinesError

ROWS = [{"question": "café 12 + 30", "answer": 42}, {"question": "a\u2028b", "answer": 0.1}]
TEXT = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def read(path: Path) -> list[dict[str, object]]:
    return [json_lines.parse_row(line, number) for number, line in json_lines.numbered_lines(path)]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode(),
        b"\n\n" + TEXT.rstrip("\n").encode(),
        TEXT.replace("\n", "\n   \n").encode(),
    ],
    ids=["plain", "bom-and-crlf", "blank-lines-and-no-last-newline", "spaces"],
)
def test_what_differs_only_in_its_framing_is_read(tmp_path: Path, content: bytes) -> None:
    assert read(written(tmp_path / "a.jsonl", content)) == ROWS


def zipped(*names: str, text: str = "<x/>") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, text)
    return stream.getvalue()


def tarred(name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PK\x03\x04rest", "a ZIP archive"),
        (zipped("q.csv"), "a ZIP archive; unpack it first: unzip"),
        (
            zipped("[Content_Types].xml", "xl/workbook.xml"),
            "such as an Excel workbook; export its sheet as CSV",
        ),
        (zipped("docProps/app.xml"), "such as an Excel workbook"),
        (zipped("_rels/.rels"), "such as an Excel workbook"),
        (zipped("mimetype", text="application/vnd.oasis.opendocument.spreadsheet"), "office program"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest", "such as an Excel workbook"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"SQLite format 3\x00rest", "an SQLite database"),
        (b"7z\xbc\xaf\x27\x1crest", "a 7z archive; unpack it first: 7z x"),
        (tarred("q.jsonl"), "a tar archive; unpack it first: tar -xf"),
        (gzip.compress(tarred("q.jsonl")), "a tar archive"),
        (b"<!DOCTYPE html>\n<title>Sign in</title>\n", "a web page"),
        (b'<html lang="en">\n', "a web page"),
        (b'<?xml version="1.0"?>\n<rows/>\n', "an XML document"),
        (b"PAR1rest", "a Parquet table"),
        (TEXT.encode("utf-16"), "text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
        (TEXT.encode("utf-16-le"), "text in UTF-16; convert it: iconv -f UTF-16LE"),
        (TEXT.encode("utf-16-be"), "text in UTF-16; convert it: iconv -f UTF-16BE"),
        (TEXT.encode("utf-32"), "text in UTF-32"),
        (b"\x00" * 4096, "begins with null bytes: it was not written whole"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a pointer of Git LFS"),
        (json.dumps(ROWS).encode(), "one JSON array of 2 objects; put each row on a line of its own: jq"),
        (json.dumps(ROWS, indent=2).encode(), "one JSON array over several lines; put each row on"),
        (json.dumps({"rows": ROWS}, indent=2).encode(), "one JSON document over several lines"),
        (b"question,answer\n12 + 30,42\n", r"begins like a table \(CSV\): 'question,answer'"),
        (b"question\tanswer\n12 + 30\t42\n", r"begins like a table \(CSV\)"),
    ],
)
def test_a_file_of_another_kind_is_called_what_it_is(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(NotJsonLinesError, match=f"this file is not JSON Lines: .*{problem}") as caught:
        read(written(tmp_path / "a.jsonl", content))
    assert caught.value.line == 1


def zstd(data: bytes) -> bytes:
    module = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
    return bytes(module.compress(data, options={module.CompressionParameter.checksum_flag: 1}))


PACKERS = [gzip.compress, lzma.compress, bz2.compress, zstd]


@pytest.mark.parametrize("pack", PACKERS)
def test_a_packed_file_is_read_as_what_is_in_it_also_where_pieces_were_put_together(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    lines = TEXT.encode().splitlines(keepends=True)
    packed = written(tmp_path / "a", b"".join(pack(line) for line in lines))
    assert read(packed) == ROWS


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_packed_file_that_is_cut_off_or_changed_is_never_read_as_a_shorter_one(
    tmp_path: Path, pack: Callable[[bytes], bytes], damage: str
) -> None:
    noise = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(250))
    content = bytearray(pack(TEXT.encode() + json.dumps({"a": noise}).encode()))
    if damage == "cut":
        del content[-4:]
    else:
        content[len(content) // 2] ^= 0xFF
    with pytest.raises(NotJsonLinesError, match=r"the compressed file is cut off or damaged|is not"):
        read(written(tmp_path / "a", bytes(content)))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"a": NaN}', "holds NaN, which is not a number in JSON; leave it out, or write null"),
        (b'{"a": -Infinity}', "holds -Infinity, which is not a number in JSON"),
        (b'{"a": 1e999}', "holds the number 1e999, which is too large; write it as text"),
        (b'{"a": 18446744073709551616}', "has more than 64 bits; write it as text, in quotes"),
        (b'{"a": -9223372036854775809}', "has more than 64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "has more than 64 bits"),
        ('{"a": "café"}'.encode("latin-1"), "is not UTF-8: it has the byte 0xe9 after 10 others; if the "),
        (b'{"a": "\\ud800"}', "holds half of a character"),
        (b'{"a": 1} {"a": 2}', "more follows at column 10; give each one its own line"),
        (b'{"a": ' + b"[" * 99_999, "its brackets are too deep"),
        (b'{"a": 1, "b": 2, "a": 1}', "has the key 'a' more than once in one object; leave all but one out"),
        (b'{"a": {"b": [{"c": 1, "\\u0063" : 2}]}}', "has the key 'c' more than once"),
        (b'"text"', "must be an object in braces, not a text"),
        (b"12", "must be an object in braces, not a number"),
        (b"null", "must be an object in braces, not null"),
    ],
)
def test_a_line_that_cannot_be_kept_to_the_last_digit_is_refused(line: bytes, problem: str) -> None:
    with pytest.raises(NotJsonLinesError) as caught:
        json_lines.parse_row(line, 7)
    assert problem in str(caught.value)
    assert caught.value.line == 7


@pytest.mark.parametrize(
    "digits",
    ["18446744073709551615", "-9223372036854775808", "0.1234567890123456789", "1E5", "-0.0", "1e-400"],
)
def test_numbers_are_what_they_are_elsewhere(digits: str) -> None:
    assert repr(json_lines.parse_row(f'{{"a": {digits}}}'.encode(), 1)["a"]) == repr(json.loads(digits))
    assert json_lines.has_long_number(digits.encode()) is (len(digits.strip("-").replace(".", "")) > 18)


@pytest.mark.parametrize(
    ("line", "sure"),
    [
        (b'{"a":1,"b":{"c":[{"a":2},[{"a":3}]]}}', True),
        (b'{"a": 1, "b": "12:30, {\'c\':1}"}', True),
        (b"{}", True),
        (b'{"a":1,"a":2}', False),
        (b'{"a":{"b":1,"b":1}}', False),
        (b'{"a":1,"\\u0061":2}', False),
        (
            b'{"a" :1,"a":"say \\":"}',
            False,
        ),  # the colon in the text is counted for the other
        (b'{"a"\t:1,"a":"say \\":"}', False),
        (b'{"a":"say \\":"}', False),  # nothing is lost here, but only the careful reader can tell
    ],
)
def test_a_lost_key_is_never_taken_for_none(line: bytes, sure: bool) -> None:
    assert json_lines.has_each_key_once(line, json.loads(line)) is sure
