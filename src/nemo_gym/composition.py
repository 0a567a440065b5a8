"""Configuration from YAML files, overrides and interpolation, for `gym eval run` and `gym eval submit`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_gym.errors import ConfigError
from nemo_gym.overrides import Override, apply_overrides, merged, parse_overrides
from nemo_gym.schema import KnownKeys, check_model
from nemo_gym.spelling import as_written, plain, remembered
from nemo_gym.yaml_files import load_yaml

__all__ = [
    "KnownKeys",
    "Override",
    "check_model",
    "compose",
    "drop_scratch",
    "load_yaml",
    "merge",
    "parse_overrides",
    "refuse_secrets",
]

_REFERENCE = re.compile(r"\$\{\s*(\.*[A-Za-z_][\w.\-\[\]]*)\s*\}")
_VARIABLE = re.compile(r"oc\.env:\s*([A-Za-z_][A-Za-z0-9_]*)")


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """``upper`` over ``lower`` as a fresh dict: mappings key by key, lists and plain values as a whole."""
    return dict(merged(lower, upper))


def compose(
    base: Mapping[str, Any], overrides: Sequence[Override], *, known: KnownKeys | None, where: str
) -> dict[str, Any]:
    """Apply ``overrides`` to ``base`` and resolve interpolations; ``base`` stays as it was.

    ``known`` are the keys of the schema, ``where`` names the configuration in messages (a file, mostly).
    Secrets from the environment are refused before anything is resolved; every value still ``???`` is named.
    """
    config = merge({}, base)
    apply_overrides(config, overrides, known, where)
    refuse_secrets(config, where=where)
    open_ = [path for path, value in _leaves(config) if value == "???"]
    if open_:
        raise ConfigError(f"{where}: still to be set (???): {', '.join(open_)}.")
    return _resolved(config, where)


def drop_scratch(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without its scratch keys: root keys that begin with ``_``."""
    return {key: value for key, value in config.items() if not key.startswith("_")}


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        pairs: Iterator[tuple[Any, Any]] = iter(node.items())
    elif isinstance(node, list):
        pairs = iter(enumerate(node))
    else:
        yield path, node
        return
    for name, value in pairs:
        yield from _leaves(value, f"{path}.{name}" if path else str(name))


def _resolved(config: dict[str, Any], where: str) -> dict[str, Any]:
    if not any(isinstance(value, str) and "${" in value for _, value in _leaves(config)):
        return config  # OmegaConf costs a tenth of a second to import
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    spelled = _with_written_numbers(config)
    try:
        resolved = OmegaConf.to_container(OmegaConf.create(plain(spelled)), resolve=True)
    except OmegaConfBaseException as error:
        path = getattr(error, "full_key", None) or "interpolation"
        problem = str(error).strip().splitlines()[0].rstrip(".")
        if unset := re.search(r"Environment variable '(\w+)' not found", problem):
            raise ConfigError(f"{where}: {path}: the environment variable {unset[1]} is not set.") from None
        raise ConfigError(
            f"{where}: {path}: {problem}; a literal dollar-brace is written \\${{…}}."
        ) from None
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in remembered(config, resolved).items()}


def _with_written_numbers(config: dict[str, Any]) -> dict[str, Any]:
    """The config with references to numbers inside of longer texts replaced by the numbers as written."""

    def filled(node: Any, path: str) -> Any:
        if isinstance(node, Mapping):
            return {key: filled(value, f"{path}.{key}" if path else str(key)) for key, value in node.items()}
        if isinstance(node, list):
            return [filled(value, f"{path}.{at}") for at, value in enumerate(node)]
        if not isinstance(node, str) or _REFERENCE.fullmatch(node):
            return node
        return _REFERENCE.sub(lambda found: _spelled(config, _target(path, found[1])) or found[0], node)

    result = filled(config, "")
    assert isinstance(result, dict)
    return result


def _spelled(config: Mapping[str, Any], path: str) -> str | None:
    node: Any = config
    for part in path.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return as_written(node)


def refuse_secrets(config: Mapping[str, Any], *, where: str) -> None:
    """Refuse environment variables that would be written out as secrets; ask before interpolation.

    Refused: ``${oc.env:…}``, also by way of other keys, under a key that looks secret, and anywhere a
    variable that looks secret. The remedy is ``host:VAR``, which is resolved in memory only.
    """
    from nemo_runs.secret_refs import looks_secret

    for path, value in _leaves(config):
        if not isinstance(value, str) or "${" not in value:
            continue
        key = next((part for part in reversed(path.split(".")) if not part.isdigit()), path)
        variables = _variables(config, path, value, seen=frozenset())
        named = [name for name in variables if looks_secret(key) or looks_secret(name)]
        if named:
            raise ConfigError(
                f"{where}: {path}: ${{oc.env:{named[0]}}} would write a secret into files; "
                f"write host:{named[0]}."
            )


def _variables(config: Mapping[str, Any], path: str, value: str, *, seen: frozenset[str]) -> list[str]:
    """The environment variables that a value draws on, directly or through the keys that it names."""
    found = _VARIABLE.findall(value)
    for reference in _REFERENCE.findall(value):
        target = _target(path, reference)
        node: Any = config
        for part in target.split("."):
            node = node.get(part) if isinstance(node, Mapping) else None
        if isinstance(node, str) and target not in seen:
            found += _variables(config, target, node, seen=seen | {target})
    return found


def _target(path: str, reference: str) -> str:
    """The absolute path of a reference; each leading dot is one level above the value that holds it."""
    name = reference.lstrip(".")
    dots = len(reference) - len(name)
    if not dots:
        return name
    return ".".join([*path.split(".")[:-dots], name])
