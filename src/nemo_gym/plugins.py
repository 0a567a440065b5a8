"""Finding an agent or a verifier by its type, building it, and calling what others wrote.

The built-in ones are found by a table, outsiders' by entry point (`nemo_runs.extensions`). A plugin is loaded
only when its type is asked for, and a package whose metadata or code is broken harms nobody but those who
ask for that very type.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from nemo_gym.errors import ConfigError
from nemo_gym.types import RolloutFailedError
from nemo_runs.errors import EntryPointError
from nemo_runs.extensions import entry_points
from nemo_runs.extensions.entry_points import EntryGroup
from nemo_runs.suggestions import suggestion

if TYPE_CHECKING:
    from pydantic import BaseModel


_AT_ONCE = object()


@dataclass(frozen=True, slots=True)
class PluginKind:
    """What is looked for; ``built_in`` maps a type to ``module:attribute``."""

    noun: str
    group: str
    built_in: Mapping[str, str]
    article: str = "a"

    @property
    def entries(self) -> EntryGroup:
        """Its group of entry points."""
        return EntryGroup(self.group, self.noun, self.built_in)


class LoadedClass(NamedTuple):
    """The class of a type, and how messages name it."""

    cls: type[Any]
    title: str
    """Such as ``the verifier 'toy' of the package toys``; of a built-in one without a package."""


def known_types(kind: PluginKind) -> list[str]:
    """All types that can be asked for, sorted; whether each of them works is not tried."""
    return sorted({*kind.built_in, *entry_points.names(kind.entries)})


def load_class(kind: PluginKind, spec: Mapping[str, Any], *, where: str) -> LoadedClass:
    """The class that ``spec["type"]`` names.

    Raises `ConfigError` for a missing or unknown type (with the nearest known one), for one whose name a
    package shares with another or with a built-in one, and for a plugin that does not load (with the package
    that brought it).
    """
    name = spec.get("type")
    if not isinstance(name, str) or not name:
        known = ", ".join(known_types(kind))
        raise ConfigError(f"{where}.type: {kind.article} {kind.noun} needs a type; known are {known}.")
    try:
        entry = entry_points.find(kind.entries, name)
        if entry is None and name not in kind.built_in:
            raise ConfigError(_unknown(kind, name, where))
        if entry is None:
            module, _, attribute = kind.built_in[name].partition(":")
            return LoadedClass(
                getattr(importlib.import_module(module), attribute), f"the {kind.noun} '{name}'"
            )
        cls = entry_points.load(kind.entries, entry, type)
        if not _has_schema(cls):
            reason = f"{entry.target} has no Options that is a pydantic.BaseModel"
            raise entry_points.broken(kind.entries, entry, reason)
    except EntryPointError as error:
        raise ConfigError(f"{where}.type: {error}.") from error
    return LoadedClass(cls, f"the {kind.noun} '{name}' of the package {entry.distribution}")


def check_options(model: type[BaseModel], spec: Mapping[str, Any], *, where: str) -> BaseModel:
    """The options of ``spec``, its ``type`` left out, checked against the plugin's own schema.

    Raises `ConfigError` for options that are wrong, and for a schema whose own code fails on them.
    """
    from pydantic import ValidationError

    options = {key: value for key, value in spec.items() if key != "type"}
    try:
        _strict(model).model_validate(options)
        return model.model_validate(options)
    except KeyboardInterrupt:
        raise
    except ValidationError as error:
        problems = (
            _problem(found, model, ".".join([where, *map(str, found["loc"])]))
            for found in error.errors(include_url=False, include_input=False)
        )
        raise ConfigError(f"{'; '.join(problems)}.") from error
    except BaseException as error:  # foreign code: a validator may raise anything
        name = f"{model.__module__}.{model.__qualname__}"
        raise ConfigError(
            f"{where}: {name} cannot check these options: {entry_points.said(error)}."
        ) from error


def _strict(model: type[BaseModel]) -> type[BaseModel]:
    """The schema, refusing unknown options unless it says what becomes of them: a typo must not pass."""
    if "extra" in model.model_config:
        return model
    return type(
        model.__name__, (model,), {"model_config": {"extra": "forbid"}, "__module__": model.__module__}
    )


def construct(loaded: LoadedClass, protocol: type[Any], arguments: tuple[Any, ...], *, where: str) -> Any:
    """Build a plugin and see that it keeps the protocol; whatever it raises becomes a `ConfigError`."""
    try:
        made = loaded.cls(*arguments)
        kept = isinstance(made, protocol)
    except ConfigError as error:
        message = str(error)
        raise ConfigError(message if message.startswith(where) else f"{where}: {message}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # foreign code: its constructor may raise anything, SystemExit too
        said = entry_points.said(error)
        raise ConfigError(f"{where}: {loaded.title} cannot be made: {said}.") from error
    if not kept:
        wanted = sorted(name for name in _members(protocol) if not hasattr(made, name))
        raise ConfigError(f"{where}: {loaded.title} lacks {', '.join(wanted)}.")
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


def _has_schema(cls: type[Any]) -> bool:
    from pydantic import BaseModel

    options = getattr(cls, "Options", None)
    return isinstance(options, type) and issubclass(options, BaseModel)


def _unknown(kind: PluginKind, name: str, where: str) -> str:
    known = known_types(kind)
    return f"{where}.type: no {kind.noun} '{name}'{suggestion(name, known)}; known are {', '.join(known)}."


async def awaited(title: str, call: Callable[[], Any], kind: type[Any], failure_class: str) -> Any:
    """What an asynchronous method of a plugin gives, which must be a ``kind``.

    What it raises goes through, if it is an `Exception`. What would end the program (``SystemExit``, say),
    a cancellation that nobody asked for and an answer of another type are a `RolloutFailedError` of
    ``failure_class`` that names the plugin.
    """
    import asyncio  # a dry run needs none

    try:
        coroutine = call()
        found = await coroutine if inspect.isawaitable(coroutine) else _AT_ONCE
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise RolloutFailedError(failure_class, f"{title} raised {entry_points.said(error)}") from error
    if found is _AT_ONCE:
        said = "gave its answer at once, and must be a coroutine: write 'async def'"
        raise RolloutFailedError(failure_class, f"{title} {said}")
    if not isinstance(found, kind):
        said = f"gave {found!r:.60}, and must give a {kind.__module__}.{kind.__qualname__}"
        raise RolloutFailedError(failure_class, f"{title} {said}")
    return found
