"""Override tokens ``key=value``, ``+key=value``, ``++key=value``: reading them and applying them.

A value is read as YAML reads a scalar or a flow collection: ``3``, ``1e-3``, ``null``, ``[a, b]``,
``{a: 1}``, ``"quoted"``. Anything else is text as it is, colons and all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from nemo_gym.errors import ConfigError, UsageError
from nemo_gym.schema import KnownKeys
from nemo_gym.yaml_files import read_flow, read_scalar

Prefix = Literal["", "+", "++"]


@dataclass(frozen=True, slots=True)
class Override:
    """One token of the command line."""

    key: str
    """Dotted path."""
    value: Any
    prefix: Prefix
    """Empty: the key must be known already. ``+`` and ``++``: it is added when it is not there."""
    text: str
    """The token as it was given."""

    @property
    def parts(self) -> list[str]:
        """The dotted path, cut."""
        return self.key.split(".")


def parse_overrides(tokens: Sequence[str]) -> list[Override]:
    """Read override tokens. `UsageError` for what is not an override, or whose value is not YAML."""
    return [_parse(token) for token in tokens]


def _parse(token: str) -> Override:
    left, equals, value = token.partition("=")
    key = left.lstrip("+")
    prefix = left[: len(left) - len(key)]
    if not equals or prefix not in ("", "+", "++") or not all(key.split(".")) or key != key.strip():
        raise UsageError(
            f"'{left}' begins no override: an override looks like key=value, +key=value or ++key=value."
        )
    return Override(key, _value(value, key), cast("Prefix", prefix), token)


def _value(text: str, key: str) -> Any:
    stripped = text.strip()
    if not stripped:
        return text
    if stripped[0] not in "[{\"'":
        return read_scalar(stripped)
    try:
        return read_flow(stripped)
    except (yaml.YAMLError, ConfigError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        problem = "nested too deeply" if deep else getattr(error, "problem", None) or "bad keys"
        raise UsageError(
            f"{key}: the value of this override is not YAML ({problem}); "
            f"quote text that begins with {stripped[0]}."
        ) from error


def apply_overrides(
    config: dict[str, Any], overrides: Sequence[Override], known: KnownKeys | None, where: str
) -> None:
    """Change ``config`` in place. A mapping is merged into a mapping; everything else replaces.

    `ConfigError` for a key that is unknown, for one below something that is not a mapping, and for a scratch
    key (one that begins with ``_``) that the file does not have: a mistyped one would appear in silence.
    """
    for override in overrides:
        parts = _split(config, override.parts)
        if override.prefix and parts[0].startswith("_") and not _exists(config, parts[:1]):
            raise ConfigError(
                f"{override.key}: a scratch key cannot be added on the command line; write it in {where}."
            )
        if not override.prefix and not _exists(config, parts) and not (known and known.has(parts, config)):
            raise ConfigError(_unknown(override, config, known, where))
        _set(config, parts, override)


def _unknown(override: Override, config: Mapping[str, Any], known: KnownKeys | None, where: str) -> str:
    keys = known or KnownKeys.anything()
    hint = keys.suggestion(override.parts, config)
    if keys.is_free(override.parts):
        hint = f"{hint}; +{override.key}=… adds it"
    return f"{override.key}: unknown key on the command line for {where}{hint}."


def _split(config: Mapping[str, Any], parts: list[str]) -> list[str]:
    """Join parts again where a key itself holds a dot (``benchmarks.mmlu.pro`` names ``mmlu.pro``)."""
    result: list[str] = []
    node: Any = config
    rest = parts
    while rest:
        size = 1
        if isinstance(node, Mapping):
            size = next((n for n in range(len(rest), 0, -1) if ".".join(rest[:n]) in node), 1)
        name, rest = ".".join(rest[:size]), rest[size:]
        result.append(name)
        node = _child(node, name)
    return result


def _child(node: Any, name: str) -> Any:
    if isinstance(node, Mapping):
        return node.get(name)
    if isinstance(node, list) and name.isdigit() and int(name) < len(node):
        return node[int(name)]
    return None


def _exists(config: Mapping[str, Any], parts: Sequence[str]) -> bool:
    node: Any = config
    for name in parts:
        if isinstance(node, Mapping) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        else:
            return False
    return True


def _set(config: dict[str, Any], parts: list[str], override: Override) -> None:
    node: Any = config
    for depth, name in enumerate(parts[:-1]):
        if isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, dict):
            if node.get(name) is None:
                node[name] = {}
            node = node[name]
        if not isinstance(node, dict | list):
            upper = ".".join(parts[: depth + 1])
            raise ConfigError(f"{override.key}: {upper} is a plain value, so nothing can be set below it.")
    last = parts[-1]
    if isinstance(node, list):
        if not last.isdigit() or int(last) >= len(node):
            upper = ".".join(parts[:-1])
            raise ConfigError(f"{override.key}: {upper} is a list of {len(node)}; give an index or the list.")
        node[int(last)] = override.value
    else:
        node[last] = merged(node.get(last), override.value)


def merged(old: Any, new: Any) -> Any:
    """``new`` over ``old``, as fresh containers: mappings key by key, lists and plain values as a whole."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {name: merged(old.get(name), new.get(name, old.get(name))) for name in {**old, **new}}
    if isinstance(new, Mapping):
        return {name: merged(None, value) for name, value in new.items()}
    if isinstance(new, list | tuple):
        return [merged(None, value) for value in new]
    return str(new) if isinstance(new, Path) else new
