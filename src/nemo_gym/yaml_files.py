"""YAML files as configuration: mappings with text keys, errors with file and line, no surprises.

Unlike plain YAML 1.1: duplicate keys are refused, ``1e-3`` is a number, and an unquoted ``48:00:00`` (which
YAML reads as the integer 172800) is refused with the remedy. Dates, ``yes``, ``no``, ``on``, ``off``, ``007``
and ``1_000`` stay text, and a number remembers how it was written: the schema decides what they are
(`nemo_gym.spelling`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.errors import ConfigError
from nemo_gym.spelling import written_float, written_int
from nemo_runs.yaml_scalars import FLOAT, INT, give_rules

_SEXAGESIMAL = "!sexagesimal"
_MOST_VALUES = 100_000


class TextLoader(yaml.SafeLoader):
    """Reads values of the command line: ``48:00:00`` is text there."""


class FileLoader(TextLoader):
    """Reads files: ``48:00:00`` must be quoted there."""


give_rules(TextLoader)
TextLoader.add_implicit_resolver(
    _SEXAGESIMAL,
    re.compile(r"[-+]?(?:[1-9][0-9_]*(?::[0-5]?[0-9])+|[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)$"),
    list("-+0123456789"),
)


def _line(path: str, mark: yaml.Mark | None) -> str:
    return path if mark is None else f"{path}:{mark.line + 1}"


def _refuse_sexagesimal(loader: FileLoader, node: yaml.ScalarNode) -> str:
    raise ConfigError(
        f"{_line(loader.name, node.start_mark)}: YAML reads an unquoted {node.value} as a number; "
        f'quote it: "{node.value}".'
    )


def _mapping(loader: TextLoader, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        where = _line(loader.name, key.start_mark)
        if key.tag != "tag:yaml.org,2002:str":
            remedy = f'; quote it: "{key.value}"' if isinstance(key, yaml.ScalarNode) else ""
            raise ConfigError(f"{where}: a key must be text{remedy}.")
        if key.value in seen:
            raise ConfigError(
                f"{where}: the key {key.value} is here a second time (first in line {seen[key.value]})."
            )
        seen[key.value] = key.start_mark.line + 1
    loader.flatten_mapping(node)
    return {str(key.value): loader.construct_object(value, deep=True) for key, value in node.value}


TextLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
TextLoader.add_constructor(INT, lambda _loader, node: written_int(node.value))
TextLoader.add_constructor(FLOAT, lambda _loader, node: written_float(node.value))
TextLoader.add_constructor(_SEXAGESIMAL, lambda _loader, node: node.value)
FileLoader.add_constructor(_SEXAGESIMAL, _refuse_sexagesimal)


def read_scalar(text: str) -> Any:
    """What YAML makes of a plain scalar: a number, a truth value, null, or the text itself."""
    loader = TextLoader("")
    try:
        tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        return loader.construct_object(yaml.ScalarNode(tag, text), deep=True)
    except (yaml.YAMLError, ValueError):
        return text
    finally:
        loader.dispose()


_ROWS = {".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".gz", ".zst", ".txt"}


def holds_rows(path: Path) -> bool:
    """Whether a file is one of rows by its name; ``.json`` may be a configuration, which is YAML too."""
    return path.suffix.lower() in _ROWS


def load_yaml(path: Path) -> dict[str, Any]:
    """Read one configuration file; an empty one is an empty mapping.

    `ConfigError` with file and line for whatever is wrong: a missing file, a folder, an encoding other than
    UTF-8, bad YAML, several documents, anything but a mapping, duplicate keys, unquoted durations.
    """
    if holds_rows(path) and path.is_file():
        raise ConfigError(
            f"{path}: this is a file of rows, and a configuration is needed here; rows are given with "
            "--input (input_jsonl_fpath), beside --benchmark NAME or --verifier TYPE."
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: this is a folder; give the YAML file in it.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from error
    try:
        content = _document(text, str(path))
    except yaml.MarkedYAMLError as error:
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{_line(str(path), error.problem_mark)}: no valid YAML: {problem}.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: no valid YAML: {' '.join(str(error).split())}.") from error
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply to be read.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: a value in it cannot be read ({str(error).partition(';')[0]}).") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold a mapping of keys to values, not a {type(content).__name__}.")
    return content


def line_of(path: Path, parts: Sequence[str]) -> int | None:
    """The line of a file, from 1, of the value of a dotted path; ``None`` if it is not there."""
    try:
        node = yaml.compose(path.read_bytes().decode("utf-8-sig"), Loader=TextLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return None
    for part in parts:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
        else:
            return None
    return None if node is None else int(node.start_mark.line) + 1


def _document(text: str, name: str) -> Any:
    loader = FileLoader(text)
    loader.name = name
    return _loaded(loader)


def read_flow(text: str) -> Any:
    """What YAML makes of one value of the command line; raises ``yaml.YAMLError`` and `ConfigError`."""
    return _loaded(TextLoader(text))


def _loaded(loader: TextLoader) -> Any:
    """The one document of a loader, unless its aliases make far more of it than was written."""
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MOST_VALUES:
            raise ConfigError(f"{loader.name}: its aliases make more than {_MOST_VALUES:,} values of it.")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node comes to once every alias is written out; one inside of itself counts once."""
    if id(node) not in known:
        known[id(node)] = 1
        pairs = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = (part for pair in pairs for part in (pair if isinstance(pair, tuple) else (pair,)))
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]
