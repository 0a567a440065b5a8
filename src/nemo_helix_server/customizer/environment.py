"""The environment of GRPO: a folder with a manifest that names the config of a gym benchmark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from nemo_helix_server.errors import InvalidError
from nemo_helix_server.files.filesets import checked_path
from nemo_runs import yaml_scalars

MANIFESTS = ("manifest.yaml", "manifest.yml", "manifest.json")
FORMAT = "native-v1"
_WHEELS = ("wheels-v1", "adapter-wheels-v1")
LARGEST = 1 << 20
_MOST_VALUES = 20_000


def rewards(read: Callable[[str], bytes | None], where: str) -> dict[str, Any]:
    """The config of the benchmark, of which the engine reads prompt and verifier; raises `InvalidError`.

    ``read`` gives the content of a file of the environment, or `None`.
    """
    name, manifest = _manifest(read, where)
    form = manifest.get("format")
    if form in _WHEELS:
        raise InvalidError(
            f"environment: {where}/{name} has the format {form}, and environments of Python wheels are not "
            f"run here; describe a gym benchmark in the format {FORMAT}"
        )
    if form != FORMAT:
        raise InvalidError(f"environment: {where}/{name} has the format {form!r}; it must be {FORMAT}")
    paths = manifest.get("config_paths")
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise InvalidError(f"environment: {where}/{name} must name files of the folder in config_paths")
    merged: dict[str, Any] = {}
    for path in paths:
        try:
            content = read(checked_path(path))
        except InvalidError as error:
            raise InvalidError(f"environment: {where}/{name}: {error.detail}") from error
        if content is None:
            raise InvalidError(f"environment: {where} has no file {path}, which config_paths names")
        merged = _merge(merged, _mapping(content, f"{where}/{path}"))
    benchmark = merged.get("benchmark")
    if not isinstance(benchmark, Mapping) or not isinstance(benchmark.get("verifier"), Mapping):
        raise InvalidError(
            f"environment: {where} describes no gym benchmark: its config has no benchmark.verifier"
        )
    chosen = {key: benchmark[key] for key in ("name", "fields", "prompt", "verifier") if key in benchmark}
    try:
        json.dumps(chosen, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidError(
            f"environment: the benchmark of {where} holds what JSON cannot: {error}; write it as text"
        ) from error
    return {"benchmark": chosen}


def _manifest(read: Callable[[str], bytes | None], where: str) -> tuple[str, dict[str, Any]]:
    for name in MANIFESTS:
        content = read(name)
        if content is not None:
            return name, _mapping(content, f"{where}/{name}")
    raise InvalidError(
        f"environment: {where} has no {MANIFESTS[0]} with `format: {FORMAT}` and `config_paths`"
    )


class _Loader(yaml.SafeLoader):
    """Plain scalars as the configs of `gym` have them."""


yaml_scalars.give_rules(_Loader)
yaml_scalars.refuse_repeated_keys(_Loader, yaml.MarkedYAMLError)


def _mapping(content: bytes, where: str) -> dict[str, Any]:
    try:
        found = yaml.load(content, Loader=_Loader)  # noqa: S506 - a child of the safe one
    except RecursionError as error:
        raise InvalidError(f"environment: {where} is too deep to be read") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None)
        raise InvalidError(
            f"environment: {where}{line} is not YAML{f': {problem}' if problem else ''}"
        ) from error
    if not isinstance(found, dict):
        raise InvalidError(f"environment: {where} must hold keys with values")
    if not _is_small(found):
        raise InvalidError(
            f"environment: {where} has more than {_MOST_VALUES} values once its aliases are written out"
        )
    return found


def _is_small(document: Any) -> bool:
    """Aliases can make a few lines of YAML larger than any memory, or endless."""
    left, waiting = _MOST_VALUES, [document]
    while waiting and left > 0:
        value = waiting.pop()
        left -= 1
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return not waiting


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(first)
    for key, value in second.items():
        mine = found.get(key)
        found[key] = _merge(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return found
