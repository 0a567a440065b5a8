"""The backends of this service by name: the built-in folders, and what other packages bring."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from nemo_helix_plugin.customization import backends as descriptions
from nemo_helix_server.customizer.backends.base import Backend, ResolvedSpec
from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule
from nemo_helix_server.errors import ServerError, UnknownNameError
from nemo_runs.errors import EntryPointError
from nemo_runs.extensions import entry_points
from nemo_runs.extensions.entry_points import EntryGroup
from nemo_runs.extensions.metadata import InstalledEntry

GROUP = "nemo_helix_server.backends"
"""An entry point of this group is ``<backend> = <module>:<attribute>``, a `Backend`."""


ENTRIES = EntryGroup(GROUP, "backend", descriptions.BUILT_IN.keys())


class BackendUnusableError(ServerError):
    """A package brings a backend that cannot be used; the message names both."""


@functools.cache
def find(name: str) -> Backend:
    """A backend by name; raises `UnknownNameError` or `BackendUnusableError`."""
    if name not in descriptions.names():
        known = ", ".join(descriptions.names())
        raise UnknownNameError(f"there is no backend '{name}'; known are {known}")
    try:
        description, entry = descriptions.find(name), entry_points.find(ENTRIES, name)
        if entry is not None:
            return _loaded(entry, description)
    except (EntryPointError, descriptions.BackendLoadError) as error:
        raise BackendUnusableError(str(error)) from error
    if name not in descriptions.BUILT_IN:
        raise BackendUnusableError(
            f"the backend '{name}' is for clients alone: its package has no entry point of the group {GROUP}"
        )
    built_in: Backend = importlib.import_module(f"{__package__}.{name}").BACKEND
    return built_in


def usable() -> Iterator[Backend]:
    """All backends that can be used, in the order of their names' list."""
    for name in descriptions.names():
        try:
            yield find(name)
        except BackendUnusableError:
            continue


def unusable() -> list[str]:
    """Why each backend that packages bring and that cannot be used cannot be, as a sentence."""
    problems = []
    for name in descriptions.names():
        try:
            find(name)
        except BackendUnusableError as error:
            problems.append(str(error))
    return problems


def _loaded(entry: InstalledEntry, description: descriptions.BackendDescription) -> Backend:
    found: Backend = entry_points.load(ENTRIES, entry, Backend)
    if found.description != description:
        reason = f"{entry.target} is not a Backend of that description"
        raise entry_points.broken(ENTRIES, entry, reason)
    if not isinstance(found.engine, str) or not descriptions.is_name(found.engine):
        reason = f"its engine must be named by a lowercase word, not '{found.engine}'"
        raise entry_points.broken(ENTRIES, entry, reason)
    return _guarded(found, entry)


def _guarded(backend: Backend, entry: InstalledEntry) -> Backend:
    """The backend with functions that give what they should, or a sentence that names backend and package."""

    def call(name: str, kind: type[Any], change: Callable[[Any], Any], *given: Any) -> Any:
        try:
            found = change(getattr(backend, name)(*given))
        except (ServerError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise BackendUnusableError(_failed(entry, name, f"raised {entry_points.said(error)}")) from error
        if not isinstance(found, kind):
            said = f"gave {found!r:.60}, and must give a {kind.__name__}"
            raise BackendUnusableError(_failed(entry, name, said))
        return found

    def rules(given: Any, facts: CompileFacts) -> Iterable[Rule]:
        found: list[Any] = call("rules", list, list, given, facts)
        if wrong := [rule for rule in found if not isinstance(rule, Rule)]:
            said = f"gave {wrong[0]!r:.60}, and must give each a Rule"
            raise BackendUnusableError(_failed(entry, "rules", said))
        return found

    def resolve(spec: ResolvedSpec, facts: CompileFacts) -> None:
        call("resolve", object, lambda found: found, spec, facts)

    def engine_spec(spec: Mapping[str, Any], facts: CompileFacts) -> dict[str, Any]:
        found: dict[str, Any] = call("engine_spec", dict, lambda found: found, spec, facts)
        return found

    def training_step(spec: Mapping[str, Any]) -> str:
        found: str = call("training_step", str, lambda found: found, spec)
        return found

    return dataclasses.replace(
        backend, rules=rules, resolve=resolve, engine_spec=engine_spec, training_step=training_step
    )


def _failed(entry: InstalledEntry, function: str, said: str) -> str:
    return f"{function} of the backend '{entry.name}' of the package {entry.distribution} {said}"
