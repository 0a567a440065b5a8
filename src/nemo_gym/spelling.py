"""Numbers that remember how they were written, so that a key that wants text gets the text.

``revision: 1e3`` is the number 1000.0 for YAML and the text ``1e3`` for the person who wrote it; which of
both is meant depends on the key, and is known only when the schema is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nemo_runs import yaml_scalars


class WrittenFloat(float):
    """A float with its text."""

    text: str


class WrittenInt(int):
    """A whole number with its text."""

    text: str


def written_int(text: str) -> int:
    """The number of a decimal or hexadecimal (``0x``) text; a plain one where its text is ``str`` of it."""
    value = int(text, 16 if "x" in text else 10)
    if str(value) == text:
        return value
    number = WrittenInt(value)
    number.text = text
    return number


def written_float(text: str) -> float:
    """The float of a YAML text, ``.inf`` and ``.nan`` too; a plain one where its text is ``repr`` of it."""
    value = yaml_scalars.number(text)
    if repr(value) == text:
        return value
    number = WrittenFloat(value)
    number.text = text
    return number


def as_written(value: object) -> str | None:
    """The text of a number; ``None`` for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return getattr(value, "text", None) or repr(value)


_TRUTH = {"yes": True, "on": True, "no": False, "off": False}
_DIGITS = re.compile(r"[-+]?(?:0[0-9_]+|[1-9][0-9]*_[0-9_]*)")


def as_wanted(problem: str, value: object) -> object | None:
    """What a plain scalar is for a schema that found a ``problem`` (pydantic's name); ``None``: it is wrong.

    A number where text is wanted is the text as written; ``yes``, ``no``, ``on`` and ``off`` are truth values
    where one is wanted, and ``007`` and ``1_000`` numbers.
    """
    if problem == "string_type":
        return as_written(value)
    if not isinstance(value, str):
        return None
    if problem in ("bool_type", "bool_parsing"):
        return _TRUTH.get(value.lower())
    numeric = problem in ("int_type", "float_type") and _DIGITS.fullmatch(value)
    return int(value) if numeric else None


def plain(node: Any) -> Any:
    """A copy in which numbers have forgotten how they were written."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [plain(value) for value in node]
    if isinstance(node, WrittenFloat):
        return float(node)
    return int(node) if isinstance(node, WrittenInt) else node


def remembered(original: Any, copy: Any) -> Any:
    """``copy``, in which numbers remember what they remember in ``original``, wherever both are equal."""
    if isinstance(original, Mapping) and isinstance(copy, Mapping):
        return {key: remembered(original.get(key), value) for key, value in copy.items()}
    if isinstance(original, list) and isinstance(copy, list) and len(original) == len(copy):
        return [remembered(old, new) for old, new in zip(original, copy, strict=True)]
    same = isinstance(original, WrittenFloat | WrittenInt) and not isinstance(copy, bool | str)
    return original if same and original == copy else copy
