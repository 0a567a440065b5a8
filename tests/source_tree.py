"""The modules under `src` as syntax trees, for tests about names."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file, read once."""
    return ast.parse(path.read_bytes())


@cache
def modules() -> dict[str, ast.Module]:
    """Each module's tree, by its dotted name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        found[name] = parsed(path)
    return found
