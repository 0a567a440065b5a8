"""The spec and the options of a submission, from files and command line, before anybody is asked."""

from __future__ import annotations

import copy
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nemo_helix_plugin.cli.inputs import validated, yaml_value
from nemo_helix_plugin.customization import backends
from nemo_runs import strict_json

if TYPE_CHECKING:
    from pydantic import BaseModel


class SpecFile(NamedTuple):
    """A spec as somebody wrote it."""

    value: dict[str, Any]
    text: str
    """JSON or YAML, of which the lines of fields are named."""


def read_object(file: str, option: str) -> SpecFile:
    """A JSON or YAML object from a file or standard input; `click.UsageError` says what is not right."""
    shown = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{option} {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{option} {file}: this is not text in UTF-8.") from None
    try:
        found = strict_json.loads(text)
    except json.JSONDecodeError as error:
        if file.endswith(".json"):
            raise click.UsageError(f"{shown} is not JSON: {error}.") from None
        found = yaml_value(text, shown)
    except ValueError as error:
        raise click.UsageError(f"{shown} {error}.") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{shown} must hold an object: keys with values.")
    return SpecFile(found, text)


def options(
    words: Sequence[str], file: str | None, token_secret: str | None, *, named: str = "-o"
) -> dict[str, Any] | None:
    """The options: a file's, over which ``backend.key=value`` words win; ``named`` is the words' option."""
    found = read_object(file, "--options-file").value if file else {}
    for word in words:
        path, equals, value = word.partition("=")
        backend, dot, key = path.partition(".")
        if not (equals and dot and backend and key):
            raise click.UsageError(f"{named} {word}: write backend.key=value, as in subprocess.memory=16Gi.")
        _put(found, (backend, key), scalar(value, f"{named} {word}"), f"{named} {word}")
    if token_secret:
        _put(found, ("hub", "token_secret"), token_secret, "--hf-token-secret")
    if not found:
        return None
    from nemo_helix_plugin.customization.requests import CustomizationOptions

    return validated(CustomizationOptions, found).model_dump(mode="json", exclude_unset=True)


def scalar(text: str, where: str) -> Any:
    """A value as YAML reads it; `click.UsageError` names ``where`` for what no JSON can hold."""
    import yaml

    from nemo_helix_plugin import yaml_text

    try:
        return strict_json.checked(yaml_text.load(text))
    except yaml.YAMLError:
        return text
    except ValueError as error:
        raise click.UsageError(f"{where} {error}.") from None


def check_uploads(backend: str, spec: Mapping[str, Any], uploads: Mapping[str, str]) -> None:
    """Refuse a reference that is both in the spec and uploaded, and what a backend has no place for."""
    for what in uploads:
        field = backends.find(backend).references.get(what)
        if field is None:
            raise click.UsageError(f"--upload-{what}: the backend {backend} takes no {what}.")
        if _look(spec, field) is not None:
            raise click.UsageError(
                f"--upload-{what}: the spec names {'.'.join(field)} already; give one of the two."
            )


def with_references(backend: str, spec: Mapping[str, Any], references: Mapping[str, str]) -> dict[str, Any]:
    """The spec with references written into their places."""
    found = copy.deepcopy(dict(spec))
    for what, reference in references.items():
        _put(found, backends.find(backend).references[what], reference, f"--upload-{what}")
    return found


def checked(backend: str, spec: Mapping[str, Any], text: str = "") -> BaseModel:
    """The spec as its type; `click.UsageError` names every field that is wrong, with its line in ``text``."""
    return validated(backends.find(backend).input_type(), spec, functools.partial(line_of, text))


def line_of(text: str, path: Sequence[str]) -> str:
    """`` (line 3)``, where a JSON or YAML text has the field or what should hold it; else nothing."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader) if text else None
    except yaml.YAMLError:  # JSON that is indented by tabs
        return ""
    line = 0
    for part in path:
        if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
        elif isinstance(node, yaml.MappingNode):
            inner = next(((key, value) for key, value in node.value if key.value == part), None)
            if inner is None:
                break
            line, node = inner[0].start_mark.line + 1, inner[1]
        else:
            break
    return f" (line {line})" if line else ""


def _look(spec: Mapping[str, Any], field: Sequence[str]) -> Any:
    found: Any = spec
    for part in field:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _put(spec: dict[str, Any], field: Sequence[str], value: Any, where: str) -> None:
    inner = spec
    for part in field[:-1]:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise click.UsageError(f"{where}: {part} holds no object to put it in.")
    inner[field[-1]] = value
