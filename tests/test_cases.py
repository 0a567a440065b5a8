"""Every case of ``cases.tsv`` names tests that exist."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
_LINES = (TESTS / "cases.tsv").read_text(encoding="utf-8").splitlines()[1:]
ROWS = [line.split("\t") for line in _LINES]


def named(path):
    """Names of the test functions of a file, also those of its classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


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
