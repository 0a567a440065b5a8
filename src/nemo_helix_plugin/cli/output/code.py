"""The Python that does what a command does: what ``-f code`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

WIDTH = 100
SEVERAL = frozenset({"list", "page", "bytes", "events"})
"""Results that are not one object."""


@dataclass(frozen=True)
class Operation:
    """One method of the client, with its keyword arguments."""

    method: str
    """As in ``jobs.pause_job``."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str = "entity"
    """What comes back: ``entity``, ``list`` (all pages), ``page``, ``bytes``, ``events`` or ``nothing``."""


@dataclass(frozen=True)
class Expression:
    """An argument that the printed program works out itself, such as a secret."""

    text: str
    imports: tuple[tuple[str, str], ...] = ()
    """Modules and what is imported from them; nothing means the module itself."""


@dataclass(frozen=True)
class Connection:
    """How the client in the printed Python is made; never with a credential."""

    context: str | None = None
    base_url: str | None = None


def program(operation: Operation, connection: Connection) -> str:
    """A whole program: imports, client, call, and printing what comes back."""
    imports = {("nemo_helix_plugin.client.client", "NemoClient")}
    imports.update(found for value in operation.arguments.values() for found in _imports(value))
    given = [f"{name}={_shown(value, 4)}" for name, value in operation.arguments.items() if value is not None]
    call = _call(f"client.{operation.method}", given, 0)
    lines = [f"import {module}" for module, name in sorted(imports) if not name]
    lines += [f"from {module} import {name}" for module, name in sorted(imports) if name]
    endings: dict[str, list[str]] = {
        "entity": [f"found = {call}.data()", "print(found.model_dump_json(indent=2))"],
        "page": [f"page = {call}.page()", "for item in page.items:", "    print(item.model_dump_json())"],
        "list": [f"for item in {call}.items():", "    print(item.model_dump_json())"],
        "events": [f"for event in {call}:", "    print(event)"],
        "bytes": [f"{call}.save({operation.arguments.get('name')!r})"],
        "nothing": [call],
    }
    return "\n".join([*lines, "", _client(connection), *endings[operation.result]])


def _client(connection: Connection) -> str:
    if connection.base_url:
        return f"client = NemoClient(base_url={connection.base_url!r})"
    context = f"context={connection.context!r}" if connection.context else ""
    return f"client = NemoClient.from_config({context})"


def _call(name: str, arguments: list[str], indent: int) -> str:
    line = f"{name}({', '.join(arguments)})"
    if len(line) + indent <= WIDTH and "\n" not in line:
        return line
    inner = " " * (indent + 4)
    return f"{name}(\n" + "".join(f"{inner}{argument},\n" for argument in arguments) + f"{' ' * indent})"


def _fields(model: Any) -> dict[str, Any]:
    """What was set of a pydantic model."""
    return {name: getattr(model, name) for name in type(model).model_fields if name in model.model_fields_set}


def _is_model(value: Any) -> bool:
    return hasattr(type(value), "model_fields")


def _shown(value: Any, indent: int) -> str:
    if isinstance(value, Expression):
        return value.text
    if _is_model(value):
        fields = [f"{name}={_shown(found, indent + 4)}" for name, found in _fields(value).items()]
        return _call(type(value).__name__, fields, indent)
    if isinstance(value, Mapping):
        line = repr(dict(value))
        if any(_is_model(v) for v in value.values()) or len(line) + indent > WIDTH:
            inner = " " * (indent + 4)
            rows = "".join(f"{inner}{k!r}: {_shown(v, indent + 4)},\n" for k, v in value.items())
            return "{\n" + rows + " " * indent + "}"
        return line
    if isinstance(value, list | tuple) and any(_is_model(v) or isinstance(v, Mapping) for v in value):
        inner = " " * (indent + 4)
        rows = "".join(f"{inner}{_shown(v, indent + 4)},\n" for v in value)
        return "[\n" + rows + " " * indent + "]"
    return repr(str(value)) if isinstance(value, str) else repr(value)


def _imports(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Expression):
        yield from value.imports
        return
    if _is_model(value):
        module = type(value).__module__
        public = "nemo_helix_plugin.jobs.types" if module.startswith("nemo_helix_plugin.jobs.") else module
        yield public, type(value).__name__
        for found in _fields(value).values():
            yield from _imports(found)
    elif isinstance(value, Mapping):
        for found in value.values():
            yield from _imports(found)
    elif isinstance(value, list | tuple):
        for found in value:
            yield from _imports(found)
