"""The program that holds the tools of one Python file: calls as JSON lines on standard input, results out.

It needs nothing but Python itself, and is started by its text (``python -c``), so that it runs in a sandbox
that has nothing of this project. The first line brings the file; its answer is the schemas of the tools. Each
call runs in a thread of its own. What a tool prints goes to standard error.
"""

import asyncio
import inspect
import json
import linecache
import os
import re
import sys
import threading
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

ROW_FUNCTION = "start_rollout"
"""A function of this name is not a tool: it is called once, before the first call, with the task's row."""
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_KNOWN = "str, int, float, bool, None, list, dict, Any, Literal, Annotated, TypedDict, and unions of these"
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_FIELD = re.compile(r"^\s*:(?:param|arg)(?:\s+[\w.\[\], |]+)?\s+(\w+):\s*(.*)$")
_OF_PARAMETERS = ("Args", "Arguments", "Parameters", "fields")
_ENTRY = re.compile(r"^\s*(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


class ToolFileError(Exception):
    """The file cannot be used, and why."""


def main() -> int:
    """Answer until standard input ends."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sending = threading.Lock()

    def send(answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode() + b"\n"
        with sending:
            out.write(body)

    setup = json.loads(requests.readline())
    try:
        tools = tools_of(setup["name"], setup["source"], setup.get("row"))
    except ToolFileError as error:
        send({"problem": str(error)})
        return 0
    send({"schemas": [schema for schema, _ in tools.values()]})
    for line in requests:
        request = json.loads(line)
        threading.Thread(target=_answer, args=(tools, request, setup["limit"], send), daemon=True).start()
    return 0


def tools_of(
    name: str, source: str, row: Mapping[str, Any] | None
) -> dict[str, tuple[dict[str, Any], Callable[..., Any]]]:
    """Schema and function of each tool, by name. Raises `ToolFileError`."""
    module = types.ModuleType("tools")
    module.__file__ = name
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, name, "exec"), module.__dict__)  # noqa: S102 - the file that the user named
    except Exception as error:  # code of others
        raise ToolFileError(f"{name} does not load: {said(error)}{alone(error)}") from error
    found = {}
    for attribute, value in vars(module).items():
        own = inspect.isfunction(value) and value.__module__ == module.__name__
        if own and not attribute.startswith("_") and attribute != ROW_FUNCTION:
            found[attribute] = (schema_of(attribute, value, name), value)
    if not found:
        raise ToolFileError(
            f"{name} has no function that could be a tool; write def NAME(...) with a docstring"
        )
    begin = getattr(module, ROW_FUNCTION, None)
    if begin is not None and row is not None:
        try:
            _run(begin, {"row": row} if "row" in inspect.signature(begin).parameters else {})
        except Exception as error:  # code of others
            raise ToolFileError(f"{name}: {ROW_FUNCTION} failed: {said(error)}") from error
    return found


def alone(error: BaseException) -> str:
    """What to do where the text of a file is loaded and misses a file that may be beside it."""
    if not isinstance(error, FileNotFoundError | ModuleNotFoundError):
        return ""
    return (
        "; the text of this file alone goes along, without the files beside it: put what it needs into it, "
        "or into fields of the rows"
    )


def schema_of(name: str, function: Callable[..., Any], file: str) -> dict[str, Any]:
    """What a model is shown of a function: name, description, JSON schema of its parameters."""
    description, of_parameters = documented(inspect.getdoc(function) or "")
    if not description:
        raise ToolFileError(f"{file}: {name} has no docstring; the model needs one to know what it does")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # a hint may be any code
        raise ToolFileError(f"{file}: the type hints of {name} cannot be read ({said(error)})") from error
    properties: dict[str, Any] = {}
    required = []
    for parameter in inspect.signature(function).parameters.values():
        where = f"{file}: {name}({parameter.name})"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolFileError(f"{where} must be a plain parameter: a model gives arguments by name")
        if parameter.name not in hints:
            raise ToolFileError(f"{where} has no type hint; give one of {_KNOWN}")
        schema = json_schema(hints[parameter.name], where)
        if parameter.name in of_parameters:
            schema.setdefault("description", of_parameters[parameter.name])
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None:
            schema["default"] = _as_json(parameter.default)
        properties[parameter.name] = schema
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "parameters": parameters}


def json_schema(hint: Any, where: str) -> dict[str, Any]:
    """The JSON schema of a type hint; raises `ToolFileError` for one that JSON has no type for."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        schema: dict[str, Any] = {}
    elif hint in _PLAIN:
        schema = {"type": _PLAIN[hint]}
    elif origin is typing.Annotated:
        words = next((extra for extra in arguments[1:] if isinstance(extra, str)), None)
        schema = json_schema(arguments[0], where) | ({} if words is None else {"description": words})
    elif origin in (typing.Required, typing.NotRequired):
        schema = json_schema(arguments[0], where)
    elif origin in (typing.Union, types.UnionType):
        schema = {"anyOf": [json_schema(argument, where) for argument in arguments]}
    elif origin is typing.Literal:
        schema = {"enum": list(arguments)}
    elif hint is list or origin is list:
        schema = {"type": "array", **({"items": json_schema(arguments[0], where)} if arguments else {})}
    elif hint is dict or (origin is dict and arguments[0] is str):
        more = {"additionalProperties": json_schema(arguments[1], where)} if arguments else {}
        schema = {"type": "object", **more}
    elif typing.is_typeddict(hint):
        fields = typing.get_type_hints(hint, include_extras=True)
        schema = {
            "type": "object",
            "properties": {key: json_schema(of_key, where) for key, of_key in fields.items()},
            "required": sorted(hint.__required_keys__),
            "additionalProperties": False,
        }
    else:
        raise ToolFileError(f"{where} has a type hint that JSON has no type for ({hint}); known are {_KNOWN}")
    return schema


def documented(text: str) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and what it says of parameters (``Args:`` or ``:param NAME:``)."""
    kept: list[str] = []
    parameters: dict[str, str] = {}
    section, last, depth = "", "", 0
    for line in text.splitlines():
        heading, field = _SECTION.match(line), _FIELD.match(line)
        if heading:
            section, last, depth = heading[1], "", 0
        elif line.lstrip().startswith(":"):
            section, last = "fields", field[1] if field else ""
            if field:
                parameters[last] = field[2]
        elif section == "fields" and not line.strip():
            section = ""
        elif section in _OF_PARAMETERS:
            entry, indent = _ENTRY.match(line), len(line) - len(line.lstrip())
            if entry and section != "fields" and (not depth or indent <= depth):
                depth, last = indent, entry[1]
                parameters[last] = entry[2]
            elif last and line.strip():
                parameters[last] = f"{parameters[last]} {line.strip()}".strip()
        elif not section:
            kept.append(line)
    return "\n".join(kept).strip(), parameters


def fitted(value: Any, schema: Mapping[str, Any], path: str) -> Any:
    """The value as its schema wants it; raises `ValueError` with a sentence for the model."""
    if "anyOf" in schema:
        for one in schema["anyOf"]:
            try:
                return fitted(value, one, path)
            except ValueError:
                pass
        raise ValueError(f"{path} fits none of {json.dumps(schema['anyOf'])}")
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"{path} must be one of {json.dumps(schema['enum'])}")
    wanted = schema.get("type")
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if wanted is not None and not _is_of(value, wanted):
        raise ValueError(f"{path} must be of the type {wanted}")
    if isinstance(value, list) and "items" in schema:
        return [fitted(item, schema["items"], f"{path}[{number}]") for number, item in enumerate(value)]
    return _fitted_object(value, schema, path) if isinstance(value, dict) else value


def said(error: BaseException) -> str:
    """An error of code of others, with the place where it arose."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = ""
    if frame is not None:
        place = (
            f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}, in {frame.tb_frame.f_code.co_name})"
        )
    words = str(error).encode("utf-8", "replace").decode()
    if isinstance(error, SyntaxError) and error.filename is not None:  # its frame is that of who compiled
        place, words = f" ({error.filename}:{error.lineno})", error.msg
    return f"{type(error).__name__}: {words}{place}"[:2000]


def _fitted_object(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            raise ValueError(f"{path} lacks {name!r}")
    found = {}
    for name, item in value.items():
        if name in properties:
            found[name] = fitted(item, properties[name], name if path == "arguments" else f"{path}.{name}")
        elif others is False:
            known = ", ".join(properties) or "none"
            raise ValueError(f"{path} has {name!r}, which is not known; known are {known}")
        else:
            found[name] = fitted(item, others, f"{path}.{name}") if isinstance(others, Mapping) else item
    return found


def _is_of(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    kinds: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "array": list,
        "object": dict,
        "null": type(None),
    }
    return wanted in kinds and isinstance(value, kinds[wanted])


def _answer(
    tools: Mapping[str, tuple[dict[str, Any], Callable[..., Any]]],
    request: Mapping[str, Any],
    limit: int,
    send: Callable[[Mapping[str, Any]], None],
) -> None:
    failed = False
    try:
        schema, function = tools[request["name"]]
        given = fitted(request["arguments"], schema["parameters"], "arguments")
    except (KeyError, ValueError) as error:
        failed, content = True, str(error)
    else:
        try:
            result = _run(function, given)
            content = (
                result if isinstance(result, str) else json.dumps(result, default=str, ensure_ascii=False)
            )
        except BaseException as error:  # noqa: BLE001 - code of others, which may even end the program
            failed, content = True, said(error)
    data = content.encode("utf-8", "replace")
    cut = data[:limit].decode("utf-8", "ignore")
    send({"id": request["id"], "content": cut, "bytes": len(data), "error": failed})


def _run(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    result = function(**arguments)
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def _as_json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)


if __name__ == "__main__":
    sys.exit(main())
