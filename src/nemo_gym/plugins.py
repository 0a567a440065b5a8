"""Finding an agent or a verifier by its type: the built-in ones by a table, outsiders' by entry point.

A plugin is looked for only when its type is asked for, and a package whose metadata or code is broken harms
nobody but those who ask for that very type.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nemo_gym.errors import ConfigError
from nemo_runs.suggestions import suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class PluginKind:
    """What is looked for; ``built_in`` maps a type to ``module:attribute``."""

    noun: str
    group: str
    built_in: Mapping[str, str]
    article: str = "a"


@dataclass(frozen=True, slots=True)
class _Offer:
    """An entry point and the distribution that offers it."""

    entry: EntryPoint
    distribution: str


def known_types(kind: PluginKind) -> list[str]:
    """All types that can be asked for, sorted; whether each of them works is not tried."""
    return sorted({*kind.built_in, *(offer.entry.name for offer in _offers(kind.group))})


def load_class(kind: PluginKind, spec: Mapping[str, Any], *, where: str) -> type[Any]:
    """The class that ``spec["type"]`` names.

    Raises `ConfigError` for a missing or unknown type (with the nearest known one) and for a plugin that does
    not load (with the package that brought it).
    """
    name = spec.get("type")
    if not isinstance(name, str) or not name:
        known = ", ".join(known_types(kind))
        raise ConfigError(f"{where}.type: {kind.article} {kind.noun} needs a type; known are {known}.")
    if name in kind.built_in:
        module, _, attribute = kind.built_in[name].partition(":")
        return _class(getattr(importlib.import_module(module), attribute), name, where)
    offers = [offer for offer in _offers(kind.group) if offer.entry.name == name]
    if not offers:
        raise ConfigError(_unknown(kind, name, where))
    values = {offer.entry.value for offer in offers}
    if len(values) > 1:
        packages = ", ".join(sorted(offer.distribution for offer in offers))
        raise ConfigError(f"{where}.type: {kind.noun} '{name}' is offered by several packages ({packages}).")
    return _class(_load(kind, offers[0], where), name, where)


def check_options(model: type[BaseModel], spec: Mapping[str, Any], *, where: str) -> BaseModel:
    """The options of ``spec``, its ``type`` left out, checked against the plugin's own schema."""
    from pydantic import ValidationError

    options = {key: value for key, value in spec.items() if key != "type"}
    try:
        _strict(model).model_validate(options)
        return model.model_validate(options)
    except ValidationError as error:
        problems = (
            _problem(found, model, ".".join([where, *map(str, found["loc"])]))
            for found in error.errors(include_url=False, include_input=False)
        )
        raise ConfigError(f"{'; '.join(problems)}.") from error


def _strict(model: type[BaseModel]) -> type[BaseModel]:
    """The schema, refusing unknown options unless it says what becomes of them: a typo must not pass."""
    if "extra" in model.model_config:
        return model
    return type(
        model.__name__, (model,), {"model_config": {"extra": "forbid"}, "__module__": model.__module__}
    )


def construct(cls: type[Any], protocol: type[Any], arguments: tuple[Any, ...], *, where: str) -> Any:
    """Build a plugin and see that it keeps the protocol; whatever it raises becomes a `ConfigError`."""
    try:
        made = cls(*arguments)
    except ConfigError as error:
        message = str(error)
        raise ConfigError(message if message.startswith(where) else f"{where}: {message}") from error
    except Exception as error:  # foreign code: its constructor may raise anything
        raise ConfigError(
            f"{where}: {cls.__module__}.{cls.__qualname__} failed: {_error_text(error)}."
        ) from error
    if not isinstance(made, protocol):
        wanted = sorted(name for name in _members(protocol) if not hasattr(made, name))
        message = f"{where}: {cls.__module__}.{cls.__qualname__} lacks {', '.join(wanted)}."
        raise ConfigError(message)
    return made


def _problem(problem: Mapping[str, Any], model: type[BaseModel], path: str) -> str:
    if problem["type"] != "extra_forbidden":
        message = str(problem["msg"]).removeprefix("Value error, ")
        return f"{path} ({message[:1].lower()}{message[1:]})"
    known = ", ".join(model.model_fields) or "none"
    hint = suggestion(str(problem["loc"][-1]), model.model_fields) or f"; known are {known}"
    return f"unknown option {path}{hint}"


def _members(protocol: type[Any]) -> set[str]:
    names = {*vars(protocol), *getattr(protocol, "__annotations__", {})}
    return {name for name in names if not name.startswith("_")}


def _class(found: Any, name: str, where: str) -> type[Any]:
    if not isinstance(found, type) or not hasattr(found, "Options"):
        raise ConfigError(f"{where}.type: '{name}' names no class with an Options schema.")
    return found


def _load(kind: PluginKind, offer: _Offer, where: str) -> Any:
    try:
        return offer.entry.load()
    except Exception as error:  # foreign code: an import may raise anything
        raise ConfigError(
            f"{where}.type: {kind.noun} '{offer.entry.name}' of package {offer.distribution} does not load: "
            f"{_error_text(error)}."
        ) from error


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(".: ")


def _unknown(kind: PluginKind, name: str, where: str) -> str:
    known = known_types(kind)
    return f"{where}.type: no {kind.noun} '{name}'{suggestion(name, known)}; known are {', '.join(known)}."


def _offers(group: str) -> Iterator[_Offer]:
    from importlib.metadata import distributions

    for distribution in distributions():
        try:
            entries = [entry for entry in distribution.entry_points if entry.group == group]
            # read for those that offer something only: it takes most of the time
            name = (distribution.metadata["Name"] or "unnamed") if entries else ""
        except Exception:  # noqa: BLE001, S112 - a package with unreadable metadata must not hide the others
            continue
        yield from (_Offer(entry, name) for entry in entries)
