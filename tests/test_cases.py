"""Every case of ``cases.tsv`` names tests that exist."""

from functools import cache
from pathlib import Path

import pytest
from tests.source_tree import functions, parsed

TESTS = Path(__file__).resolve().parent
_LINES = (TESTS / "cases.tsv").read_text(encoding="utf-8").splitlines()[1:]
ROWS = [line.split("\t") for line in _LINES]


@cache
def named(path):
    """Names of the test functions of a file, also those of its classes."""
    return {node.name for node in functions(parsed(path))}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_tests_that_show_a_case_exist(row):
    _, what, tests = row
    assert what
    for test in tests.split():
        path, _, name = test.partition("::")
        assert name in named(TESTS.parent / path), test


def test_keys_are_there_once():
    keys = [row[0] for row in ROWS]
    assert len(keys) == len(set(keys))
