"""Lists and objects that a cell of a table holds as text: as JSON, Python, NumPy and pandas write them."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from typing import Any


def read_cell(text: str) -> Any:
    """The value that the text writes; ``None`` where it writes none, or something else than data."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        return None


def _value(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=[ast.Constant(value=str()) as only]):
            return _texts(only, text)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, text) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_name(key): _value(value, text) for key, value in zip(keys, values, strict=True)}
        case ast.Call(func=ast.Name(id="array"), args=[ast.List() as items]):
            return _value(items, text)
        case _:
            raise ValueError("no data")


def _name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("no data")


def _texts(node: ast.Constant, text: str) -> list[str]:
    """The texts of a list: NumPy puts only blanks between them, which Python takes for one text."""
    segment = ast.get_source_segment(text, node) or ""
    tokens = tokenize.generate_tokens(io.StringIO(f"({segment})").readline)
    return [str(ast.literal_eval(token.string)) for token in tokens if token.type == tokenize.STRING]
