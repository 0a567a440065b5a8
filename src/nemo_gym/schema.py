"""The keys that a configuration may have, taken from its pydantic model; errors that name the nearest one."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nemo_gym.errors import ConfigError
from nemo_gym.spelling import as_wanted, plain
from nemo_runs.suggestions import did_you_mean, nearest

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """A tree of keys."""

    names: Mapping[str, KnownKeys] = field(default_factory=dict)
    """Keys that the schema names."""
    values: KnownKeys | None = None
    """What is under keys that the user names (``services.<name>``)."""
    free: bool = False
    """Anything may be here."""
    checked_later: bool = False
    """Any key may be set here: what reads it has a schema of its own and refuses what that does not name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names that people give to keys here, and the keys (``../``: above); suggested, never accepted."""

    @classmethod
    def of(cls, model: type[BaseModel]) -> KnownKeys:
        """The keys of a model, nested models, unions and mappings included."""
        return cls({name: _of_type(info.annotation) for name, info in model.model_fields.items()})

    @classmethod
    def anything(cls) -> KnownKeys:
        """The keys of something without a schema."""
        return cls(free=True)

    def with_keys(self, path: Sequence[str], below: KnownKeys) -> KnownKeys:
        """The tree with ``below`` at ``path``, in which ``*`` is every key that the user names."""
        if not path:
            return below
        first, rest = path[0], path[1:]
        if first == "*":
            return replace(self, values=(self.values or KnownKeys()).with_keys(rest, below))
        changed = self.names.get(first, KnownKeys()).with_keys(rest, below)
        return replace(self, names={**self.names, first: changed})

    def has(self, parts: Sequence[str], config: Any) -> bool:
        """Whether the schema names this path; keys that the user names must be in ``config``."""
        if not parts:
            return True
        first, rest = parts[0], parts[1:]
        if self.checked_later and nearest(first, self.names) in (first, None):
            return True
        below = config.get(first) if isinstance(config, Mapping) else None
        if first in self.names:
            return self.names[first].has(rest, below)
        if self.values is not None and isinstance(config, Mapping) and first in config:
            return self.values.has(rest, below)
        return False

    def is_free(self, parts: Sequence[str]) -> bool:
        """Whether the path is one that a user may add, since somewhere on the way anything may be."""
        if self.free or not parts:
            return self.free
        node = self.names.get(parts[0], self.values)
        if node is self.values and node is not None and len(parts) == 1:
            return True
        return node is not None and node.is_free(parts[1:])

    def paths(self, config: Any, prefix: str = "") -> Iterator[str]:
        """Every valid dotted path, names that the user chose taken from ``config``."""
        present = config if isinstance(config, Mapping) else {}
        keys: dict[str, KnownKeys] = dict(self.names)
        if self.values is not None:
            keys |= {name: self.values for name in present if name not in keys}
        if self.free:
            keys |= {name: KnownKeys.anything() for name in present if name not in keys}
        for name, below in keys.items():
            yield prefix + name
            yield from below.paths(present.get(name), f"{prefix}{name}.")

    def suggestion(self, parts: Sequence[str], config: Mapping[str, Any]) -> str:
        """The rest of a sentence about an unknown path: the nearest valid one, or what is known there."""
        valid = [path for path in self.paths(config) if not path.startswith("_")]
        free = self.is_free(parts)
        others = [
            path
            for path in valid
            if (
                parts[:-1] == path.split(".")[:-1]
                if free
                else parts[: path.count(".") + 1] != path.split(".")
            )
        ]
        path = self._alias(parts, 1.0) or nearest_path(".".join(parts), others) or self._alias(parts, 0.8)
        if path is not None:
            return did_you_mean(path)
        if free:
            return ""
        for depth in range(len(parts) - 1, -1, -1):
            prefix = ".".join([*parts[:depth], ""]) if depth else ""
            here = [p[len(prefix) :] for p in valid if p.startswith(prefix) and "." not in p[len(prefix) :]]
            if here:
                return f"; known there: {', '.join(here[:30])}"
        return ""

    def _alias(self, parts: Sequence[str], cutoff: float) -> str | None:
        """The path that is meant by a path whose last part is like a known other name."""
        node: KnownKeys | None = self
        for part in parts[:-1]:
            node = node.names.get(part, node.values) if node is not None else None
        alias = nearest(parts[-1], node.aliases, cutoff=cutoff) if node is not None else None
        if node is None or alias is None:
            return None
        meant = node.aliases[alias]
        above = meant.count("../")
        return ".".join([*parts[: len(parts) - 1 - above], meant.removeprefix("../" * above)])


def _of_type(annotation: Any) -> KnownKeys:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of_type(args[0])
    if origin is Union or origin is types.UnionType:
        return _union([_of_type(arm) for arm in args])
    if origin is dict or origin is Mapping or annotation is dict:
        return _of_mapping(args)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return KnownKeys.of(annotation)
    return KnownKeys(free=annotation is Any)


def _of_mapping(args: tuple[Any, ...]) -> KnownKeys:
    if len(args) != 2:
        return KnownKeys.anything()
    below = _of_type(args[1])
    if get_origin(args[0]) is Literal:
        return KnownKeys({str(name): below for name in get_args(args[0])})
    return KnownKeys.anything() if args[1] is Any else KnownKeys(values=below)


def _union(arms: list[KnownKeys]) -> KnownKeys:
    names: dict[str, KnownKeys] = {}
    for arm in arms:
        for name, below in arm.names.items():
            names[name] = _union([names[name], below]) if name in names else below
    values = [arm.values for arm in arms if arm.values is not None]
    return KnownKeys(names, _union(values) if values else None, any(arm.free for arm in arms))


def nearest_path(path: str, candidates: Sequence[str]) -> str | None:
    """The dotted path most likely meant: a sibling, the same key elsewhere, or a similar path."""
    parent, _, key = path.rpartition(".")
    siblings = {c.rpartition(".")[2]: c for c in candidates if c.rpartition(".")[0] == parent}
    if (sibling := nearest(key, siblings)) is not None:
        return siblings[sibling]
    for cutoff in (1.0, 0.8):
        like = nearest(key, {c.rpartition(".")[2] for c in candidates}, cutoff=cutoff)
        if like is not None:
            return nearest(path, [c for c in candidates if c.rpartition(".")[2] == like], cutoff=0.0)
    return nearest(path, candidates)


def check_model(
    model: type[Model],
    config: Mapping[str, Any],
    *,
    where: str,
    known: KnownKeys | None = None,
    files: Sequence[Path] = (),
    keep_spelling: bool = False,
    options: Mapping[str, str] | None = None,
) -> Model:
    """Build ``model`` from ``config``; `ConfigError` in one line: missing keys first, then ``path (reason)``.

    ``known`` are the keys that can be suggested, those of the model unless given. ``files``: where the config
    was read from, later ones first, for the line of a value that is refused. A number under a key that wants
    text becomes the text as it was written, and ``yes`` under one that wants a truth value is one.
    ``keep_spelling``: what is under keys without a schema goes on remembering how it was written; a later
    check of it needs that. ``options``: what the person typed in place of these paths; it names them in the
    message. Values are never quoted in the message, except for truth values: one of them may
    be a secret.
    """
    spelled = config
    for _ in range(2):
        try:
            return model.model_validate(spelled if keep_spelling else plain(spelled))
        except ValidationError as error:
            wanted = _as_wanted(spelled, error)
            if wanted is None:
                explained = _explain(error, known or KnownKeys.of(model), config, files, options or {})
                place = "" if explained.startswith("--") else f"{where}: "
                raise ConfigError(f"{place}{explained}.") from None
            spelled = wanted
    raise AssertionError("a value that was changed for the schema is still not what it wants")


def _as_wanted(config: Mapping[str, Any], error: ValidationError) -> dict[str, Any] | None:
    """The config with plain scalars as what the schema takes them for; ``None`` if that changes nothing."""
    changed: dict[str, Any] | None = None
    for detail in error.errors(include_url=False, include_input=False):
        path = _located(detail["loc"], config, named=False)
        wanted = as_wanted(detail["type"], _value_at(config, path))
        if wanted is not None:
            changed = _replaced(config if changed is None else changed, path, wanted)
    return changed


def _value_at(config: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(config, Mapping):
            config = config.get(part)
        else:
            config = config[int(part)] if isinstance(config, list) and part.isdigit() else None
    return config


def _replaced(node: Any, path: Sequence[str], value: object) -> Any:
    """A copy of ``node`` with another value at ``path``."""
    if not path:
        return value
    if isinstance(node, Mapping):
        return {**node, path[0]: _replaced(node[path[0]], path[1:], value)}
    at = int(path[0])
    return [*node[:at], _replaced(node[at], path[1:], value), *node[at + 1 :]]


def _explain(
    error: ValidationError,
    known: KnownKeys,
    config: Mapping[str, Any],
    files: Sequence[Path],
    options: Mapping[str, str],
) -> str:
    missing: list[str] = []
    unknown: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    below: list[str] = []  # of a union, the arm that was meant says what is wrong inside of it
    for detail in error.errors(include_url=False, include_input=False):
        parts = _located(detail["loc"], config, named=detail["type"] in ("missing", "extra_forbidden"))
        path = ".".join(parts) or "the whole"
        if detail["type"] == "missing":
            missing.append(path)
            below.append(path)
        elif detail["type"] == "extra_forbidden":
            unknown.setdefault(known.suggestion(parts, config), []).append(path)
            below.append(path)
        else:
            value = _value_at(config, parts)
            if detail["type"] == "string_type" and isinstance(value, bool):
                reason = _quote_it(parts, value, files)
            else:
                reason = _reason(detail["type"], detail["msg"]) + _meant(detail, value)
            reasons.setdefault(path, []).append(reason)
            below.append(path)
    found = [f"missing {', '.join(dict.fromkeys(missing))}"] if missing else []
    found += [
        f"{options.get(path, path)} ({' or '.join(dict.fromkeys(why))})"
        for path, why in reasons.items()
        if not any(other.startswith(f"{path}.") for other in below)
    ]
    for hint, paths in unknown.items():
        found.append(f"unknown {'keys' if len(paths) > 1 else 'key'} {', '.join(paths)}{hint}")
    return "; ".join(found)


def _quote_it(parts: Sequence[str], value: bool, files: Sequence[Path]) -> str:
    """YAML's truth values under a key that wants text: ``true`` could have been written in three ways."""
    from nemo_gym.yaml_files import line_of

    lines = ((file, line_of(file, parts)) for file in files)
    place = next((f" in {file}:{line}" for file, line in lines if line is not None), "")
    word = str(value).lower()
    return f'must be text; YAML reads {word} as a truth value{place}; quote it: "{word}"'


def _meant(detail: Any, value: Any) -> str:
    """`did_you_mean` one of the words that are allowed, where only some words are."""
    if detail["type"] != "literal_error" or not isinstance(value, str):
        return ""
    words = re.findall(r"'([^']*)'", detail.get("ctx", {}).get("expected", ""))
    return did_you_mean(nearest(value, words))


_WORDING = (
    (r", unable to parse string as .*", ""),
    (r"^Input should be a valid boolean\b", "must be true or false"),
    (r"^Input should be a valid integer\b", "must be a whole number"),
    (r"^Input should be a valid number\b", "must be a number"),
    (r"^Input should be a valid string\b", "must be text"),
    (r"^Input should be a valid list\b", "must be a list"),
    (r"^Input should be greater than or equal to (.*)", r"must be \1 or more"),
    (r"^Input should be less than or equal to (.*)", r"must be \1 or less"),
    (r"^Input should be\b", "must be"),
    (r"^(String|List|Dictionary) should\b", r"\1 must"),
)
"""What pydantic says, and what is said in its place."""


def _reason(kind: str, message: str) -> str:
    if kind in ("value_error", "assertion_error"):
        message = message.partition(", ")[2]
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        message = "must be a mapping of keys to values"
    for theirs, ours in _WORDING:
        message = re.sub(theirs, ours, message)
    return message[:1].lower() + message[1:]


def _located(location: Sequence[int | str], config: Any, *, named: bool) -> list[str]:
    """The path of a pydantic error in the user's terms: tags of unions and marks of mapping keys left out.

    ``named``: the last part is a key, though it may not be there.
    """
    parts: list[str] = []
    node = config
    for position, part in enumerate(location):
        if part == "[key]":
            break
        if isinstance(node, Mapping):
            if part not in node and not (named and position == len(location) - 1):
                continue
            node = node.get(part)
        elif isinstance(node, list | tuple) and isinstance(part, int):
            node = node[part]
        else:
            break
        parts.append(str(part))
    return parts
