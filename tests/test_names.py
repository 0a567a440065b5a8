"""A name means one thing: a public class is defined in one module of the distribution."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.source_tree import modules

TWICE = {
    "Checkpoint": "the trainer's, a folder on disk, and the wire's, a row of an answer; both are frozen",
    "Completed": "a command on a host, and a program in a sandbox, each with what its callers need",
    "LazyGroup": "each program has its own",
}
"""Names that two modules define, each with the reason."""


def defined(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """The modules that define each public class, at their top level."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


def test_a_public_class_is_defined_in_one_module() -> None:
    twice = {name: where for name, where in defined(modules()).items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in TWICE} == {}


def test_a_second_definition_is_found() -> None:
    trees = {
        "a": ast.parse("class Run: ...\nclass _Own: ..."),
        "b": ast.parse("class Run: ...\nclass _Own: ..."),
    }
    assert defined(trees) == {"Run": ["a", "b"]}
