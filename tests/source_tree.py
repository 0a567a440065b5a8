"""The modules under `src` as syntax trees, for tests about names: each is read, and walked, once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"

Node = TypeVar("Node", bound=ast.AST)


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file."""
    return ast.parse(path.read_bytes())


@cache
def modules() -> dict[str, ast.Module]:
    """Each module's tree, by its dotted name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        found[name] = parsed(path)
    return found


@cache
def by_kind(tree: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    """All nodes of a tree, the tree itself too, by their class."""
    found: dict[type[ast.AST], list[ast.AST]] = {}
    for node in ast.walk(tree):
        found.setdefault(type(node), []).append(node)
    return found


def nodes(tree: ast.AST, *kinds: type[Node]) -> Iterator[Node]:
    """The nodes of a tree that are of one of these classes (no bases), class by class."""
    for kind in kinds:
        yield from by_kind(tree).get(kind, ())


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a tree, methods and inner ones too."""
    yield from nodes(tree, ast.FunctionDef)
    yield from nodes(tree, ast.AsyncFunctionDef)


def texts(tree: ast.AST, *, docstrings: bool = True) -> Iterator[tuple[int, str]]:
    """Line and text of each string in a tree, also of those that stand alone unless they are left out."""
    left_out = set() if docstrings else {id(node.value) for node in nodes(tree, ast.Expr)}
    for node in nodes(tree, ast.Constant):
        if isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value
