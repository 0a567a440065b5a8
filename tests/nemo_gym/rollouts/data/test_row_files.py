"""Rows are the same whatever the format of their file, and nothing of a table is guessed or lost."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import hashlib
import json
from pathlib import Path

import pytest
from tests.real_programs import needed_module

from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.dataset import read_rows
from nemo_gym.rollouts.data.row_files import numbered_lines

ROWS = [{"question": "12 + 30?", "answer": "42"}, {"question": 'Say "no", or\n"yes".', "answer": "007"}]
TABLE = 'question,answer\n12 + 30?,42\n"Say ""no"", or\n""yes"".",007\n'


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TABLE),
        ("a.CSV", "\ufeff" + TABLE.replace("?,42\n", "?,42\r\n")),
        ("a.csv.gz", gzip.compress(TABLE.encode())),
        ("a.csv", "\n" + TABLE.replace("?,42\n", "?,42\n\n,\n")),
        ("a.csv", TABLE.replace(",answer", ";answer").replace("?,4", "?;4").replace('.",', '.";')),
        ("a.tsv", TABLE.replace(",answer", "\tanswer").replace("?,4", "?\t4").replace('.",', '."\t')),
        ("a.csv", ",question,answer\n0,12 + 30?,42\n" + TABLE.split("42\n")[1].replace('"Say', '1,"Say')),
        ("a.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS)),
        ("a.json", json.dumps(ROWS)),
        ("a.json", "\ufeff\n" + json.dumps(ROWS, indent=2)),
        ("a.json.gz", gzip.compress(json.dumps(ROWS, indent=2).encode())),
    ],
    ids=[
        "plain",
        "bom-and-cr",
        "gzip",
        "blank-lines",
        "semicolons",
        "tabs",
        "index-of-pandas",
        "lines",
        "array",
        "indented",
        "packed-array",
    ],
)
def test_every_table_of_text_gives_the_same_rows(tmp_path: Path, name: str, content: bytes | str) -> None:
    assert list(read_rows(written(tmp_path / name, content))) == ROWS


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a,b\n1,2\n1,2,3\n", ":3: has 3 cells, and the first row names 2 columns; put text that holds"),
        ("a,b\n1\n", ":2: has 1 cell, and the first row names 2 columns"),
        ("a,b,a\n1,2,3\n", ":1: the table has two columns named a."),
        ("a,,b\n1,2,3\n", ":1: column 2 of the table has no name."),
        ('a,b\n1,"2" 3\n', ":2: is not a row of a table (CSV)"),
        ('a,b\n1,"2\n', ":2: is not a row of a table (CSV)"),
        (b"a,b\n1,\xe4\n", "is not UTF-8; export the table as CSV UTF-8"),
        (b"\xe4,b\n1,2\n", "is not UTF-8; export the table as CSV UTF-8"),
    ],
)
def test_a_table_that_is_not_whole_is_named_with_file_and_line(
    tmp_path: Path, content: bytes | str, problem: str
) -> None:
    path = written(tmp_path / "a.csv", content)
    with pytest.raises(DataError) as caught:
        list(read_rows(path))
    assert str(caught.value).startswith(str(path))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[{"a": 1}, 2]', "a.json: value 2 of the array is not an object: 2."),
        ('[{"a": 1},\n{"a": }]', "a.json:2: is not JSON: Expecting value at column 7."),
        ('[{"a": 1, "a": 2}]', "a.json: "),
        ('[{"a": NaN}]', "a.json: "),
        (b'[{"a": "\xe4"}]', "a.json: is not UTF-8"),
        ('{\n"data": [{"a": 1}]}', "take the list of its rows out: jq -c '.NAME[]'"),
    ],
)
def test_an_array_that_is_not_one_of_rows_is_refused(tmp_path: Path, content: bytes | str, said: str) -> None:
    with pytest.raises(DataError) as raised:
        list(read_rows(written(tmp_path / "a.json", content)))
    assert said in str(raised.value)


def test_a_row_of_a_table_is_numbered_by_the_line_in_which_it_begins(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", TABLE + "x,y\n")
    assert [number for number, _ in numbered_lines(path)] == [2, 3, 5]


def test_a_packed_file_and_the_same_one_unpacked_have_the_same_digest(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a.csv", TABLE),
        written(tmp_path / "b.csv.gz", gzip.compress(TABLE.encode())),
    ]
    digests = {
        hashlib.sha256(b"".join(line for _, line in numbered_lines(file))).hexdigest() for file in files
    }
    assert len(digests) == 1


@pytest.mark.slow
def test_a_parquet_file_gives_rows_with_its_types(tmp_path: Path) -> None:
    pa = needed_module("pyarrow")
    parquet = needed_module("pyarrow.parquet")
    png = b"\x89PNG\r\n\x1a\nrest"
    rows = [
        {
            "n": 2**60,
            "x": 0.5,
            "options": ["a", "b"],
            "none": None,
            "day": dt.date(2026, 1, 2),
            "price": decimal.Decimal("1.10"),
            "image": {"bytes": png, "path": "1.png"},
        }
    ] * 300
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = list(read_rows(tmp_path / "a.parquet", limit=280))
    assert len(found) == 280
    assert found[-1] == {
        "n": 2**60,
        "x": 0.5,
        "options": ["a", "b"],
        "none": None,
        "day": "2026-01-02",
        "price": "1.10",
        "image": "data:image/png;base64,iVBORw0KGgpyZXN0",
    }
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-30])
    with pytest.raises(DataError, match=r"b\.parquet: cannot be read as Parquet"):
        list(read_rows(tmp_path / "b.parquet"))


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for name in ("none.jsonl", "none.csv", "none.parquet"):
        with pytest.raises(DataError, match="there is no such file"):
            list(read_rows(tmp_path / name))
