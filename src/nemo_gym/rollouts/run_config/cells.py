"""Lists and objects that a field holds as text: as JSON, Python, NumPy and pandas write them."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tokenize
from collections.abc import Iterator
from typing import Any, Final

_BETWEEN: Final = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER})
_VALUES: Final = frozenset({tokenize.STRING, tokenize.NUMBER})


def read_cell(text: str) -> Any:
    """The list or the object that the text writes; ``None`` where it is another text."""
    for read in (json.loads, _read_python):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
            found = read(text)
            return found if isinstance(found, list | dict) else None
    return None


def _read_python(text: str) -> Any:
    return _value(ast.parse(" ".join(_with_commas(text.strip())), mode="eval").body)


def _with_commas(text: str) -> Iterator[str]:
    """The tokens of a text, with commas where NumPy has only blanks between two items."""
    depth, follows_value = 0, False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _BETWEEN:
            continue
        if token.type == tokenize.COMMENT:
            raise ValueError("no data")
        if depth and follows_value and (token.type in _VALUES or token.string in ("{", "[")):
            yield ","
        depth += token.string in ("{", "[")
        depth -= token.string in ("}", "]")
        follows_value = token.type in _VALUES or token.string in ("}", "]")
        yield token.string


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_name(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.Call(func=ast.Name(id="array"), args=[ast.List() as items]):
            return _value(items)
        case _:
            raise ValueError("no data")


def _name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("no data")
