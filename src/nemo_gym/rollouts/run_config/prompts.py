"""Prompt templates: text with ``{field}`` places, ``{{`` and ``}}`` for braces; or Jinja2, in a sandbox."""

from __future__ import annotations

import functools
import json
import re
import string
from collections.abc import Mapping
from typing import Any, Literal, Protocol

Syntax = Literal["jinja2"]
Segment = tuple[str, str | None]
"""Literal text, and the field that follows it."""
_IN_BRACES = re.compile(r"\{\s*(\w+)\s*\}")


def check_template(template: str) -> list[Segment]:
    """Cut a template into segments; `ValueError` with a phrase for one that cannot be used."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error}; write {{{{ and }}}} for literal braces") from None
    segments: list[Segment] = []
    for literal, name, spec, conversion in parsed:
        if name is not None and (not name.isidentifier() or spec or conversion):
            written = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            raise ValueError(f"'{{{written}}}' is not a field name; write {{{{ and }}}} for literal braces")
        segments.append((literal, name))
    return segments


def doubled_fields(segments: list[Segment]) -> frozenset[str]:
    """Names in double braces, as other tools write fields: here they stand for the words themselves."""
    literals = "".join(literal + ("" if name is None else "\0") for literal, name in segments)
    return frozenset(_IN_BRACES.findall(literals))


def fill(segments: list[Segment], row: Mapping[str, Any]) -> str:
    """The text for one row; `KeyError` with the name of a field that is absent or null."""
    parts: list[str] = []
    for literal, name in segments:
        parts.append(literal)
        if name is not None:
            value = row.get(name)
            if value is None:
                raise KeyError(name)
            parts.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return "".join(parts)


class CannotFillError(ValueError):
    """A row from which a template makes no text; the message is a phrase."""


class Template(Protocol):
    """A text with places for the fields of a row."""

    def fill(self, row: Mapping[str, Any]) -> str:
        """The text for one row; raises `CannotFillError`."""
        ...


def template(text: str, syntax: Syntax | None = None) -> Template:
    """A template with ``{field}`` places, or of Jinja2; `ValueError` with a phrase for one that is not."""
    return Jinja2Template(text) if syntax == "jinja2" else FieldsTemplate(text)


class FieldsTemplate:
    """Text with ``{field}`` places."""

    def __init__(self, text: str) -> None:
        self._segments = check_template(text)
        self._doubled = sorted(doubled_fields(self._segments))

    def fill(self, row: Mapping[str, Any]) -> str:
        """The text for one row; fields of other kinds than text are written as JSON."""
        for name in self._doubled:
            if name in row:
                raise CannotFillError(
                    f"the prompt has {name} in double braces, which stand for braces in the text; "
                    f"write {{{name}}} for the field of the row, or prompt.syntax: jinja2"
                )
        try:
            return fill(self._segments, row)
        except KeyError as error:
            raise CannotFillError(_missing(error.args[0], row)) from None


class Jinja2Template:
    """A Jinja2 template whose variables are the fields of the row; what it may do is sandboxed."""

    def __init__(self, text: str) -> None:
        from jinja2 import TemplateSyntaxError

        try:
            self._template = _jinja2().from_string(text)
        except TemplateSyntaxError as error:
            reason = (error.message or "it cannot be read").rstrip(".")
            raise ValueError(f"is not a Jinja2 template: {reason}, in line {error.lineno}") from None

    def fill(self, row: Mapping[str, Any]) -> str:
        """The text for one row. A field that is absent, or null where it is to be written, is refused."""
        from jinja2 import UndefinedError

        try:
            return str(self._template.render(row))
        except CannotFillError:
            raise
        except UndefinedError as error:
            there = ", ".join([*row][:8]) or "none"
            reason = str(error).rstrip(".")
            raise CannotFillError(f"the prompt cannot be made: {reason}; the row has {there}") from None
        except Exception as error:  # noqa: BLE001 - a template may raise whatever the values that it works on raise
            reason = f"{type(error).__name__}: {error}".rstrip(".: ")
            raise CannotFillError(f"the prompt cannot be made ({reason})") from None


@functools.cache
def _jinja2() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_written
    )


def _written(value: Any) -> Any:
    """What a template writes for a value: never ``None``."""
    if value is None:
        raise CannotFillError("the prompt would write a field that is null in this row")
    return value


def _missing(name: str, row: Mapping[str, Any]) -> str:
    if name in row:
        return f"the prompt needs the field {name}, which is null in this row"
    return (
        f"the prompt needs the field {name}, which this row lacks; it has {', '.join([*row][:8]) or 'none'}"
    )
