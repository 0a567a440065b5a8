"""The tests of a row as a program: what is run of them, and whether they test anything. Pure."""

from __future__ import annotations

import ast
from typing import Any, Final

_CHECK: Final = "check({entry_point})"
"""How the tests of HumanEval and its descendants are called: they define ``check`` and no more."""
_DEFINES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_UNITTEST: Final = (
    "import unittest; ran = unittest.TestResult(); "
    "unittest.defaultTestLoader.loadTestsFromTestCase({name}).run(ran); assert ran.wasSuccessful(), ran"
)


def statements_in(value: Any) -> str | None:
    """The tests in a field: a text, or a list of statements as MBPP has them; ``None`` for anything else."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    return value if isinstance(value, str) and value.strip() else None


def call_of(tests: str, call: str) -> str:
    """What follows the tests: ``call``, else the call that tests need which only define ``check``."""
    if call.strip() or not _runs_nothing(tests):
        return call
    return _CHECK if "check" in [node.name for node in _definitions(tests)] else call


def untested(tests: str, call: str) -> str | None:
    """Why tests pass whatever the code is, since nothing of them runs; ``None`` for all others."""
    if call_of(tests, call).strip() or not _runs_nothing(tests):
        return None
    found = _definitions(tests)
    if not found:
        return "holds no statement that could fail"
    first = found[0]
    example = _UNITTEST.format(name=first.name) if isinstance(first, ast.ClassDef) else f"{first.name}()"
    return f"only defines {first.name}, and nothing calls it; set the verifier's option call, say {example!r}"


def imports(tests: str) -> set[str]:
    """Names of the modules that tests import anywhere, without their submodules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(tests)):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _runs_nothing(tests: str) -> bool:
    """Whether tests only import, define and set values, so that they pass whatever the code is."""
    return all(_only_sets_up(node) for node in ast.parse(tests).body)


def _only_sets_up(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(part, ast.Call) for part in ast.walk(node))
    return isinstance(node, (*_DEFINES, ast.Import, ast.ImportFrom, ast.Pass))


def _definitions(tests: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    return [node for node in ast.parse(tests).body if isinstance(node, _DEFINES)]
