"""Which executors there are, by the ``backend`` of a profile; each is imported when it is asked for.

A package adds one by an entry point of the group `GROUP` that leads to a
`nemo_helix_server.executors.base.ExecutorKind`.
"""

from __future__ import annotations

import importlib
from typing import Any

from pydantic import BaseModel

from nemo_helix_server.errors import ServerError
from nemo_runs.errors import EntryPointError
from nemo_runs.extensions import entry_points
from nemo_runs.extensions.entry_points import EntryGroup
from nemo_runs.extensions.metadata import InstalledEntry

GROUP = "nemo_helix.executors"
DEFAULT = "subprocess"
"""The executor of the built-in profiles, and of starts from before the name was on record."""
_BUILT_IN = {
    DEFAULT: "nemo_helix_server.executors.subprocesses:KIND",
    "slurm": "nemo_helix_server.executors.slurm.opening:KIND",
}
_ENTRIES = EntryGroup(GROUP, "executor", _BUILT_IN)


class UnknownExecutorError(ServerError):
    """There is no executor of this name, its name is taken twice, or it cannot be loaded."""


def names() -> tuple[str, ...]:
    """Every executor's name: what comes with the service first, then those of other packages."""
    return (*_BUILT_IN, *added())


def added() -> tuple[str, ...]:
    """The names of those of other packages, sorted."""
    return tuple(entry_points.names(_ENTRIES))


def load(name: str) -> Any:
    """The `nemo_helix_server.executors.base.ExecutorKind` of a name; raises `UnknownExecutorError`.

    What comes with the service cannot be replaced from outside: a package that offers such a name is refused.
    """
    try:
        entry = entry_points.find(_ENTRIES, name)
        if entry is not None:
            return _checked(entry, entry_points.load(_ENTRIES, entry))
    except EntryPointError as error:
        raise UnknownExecutorError(str(error)) from error
    if name not in _BUILT_IN:
        raise UnknownExecutorError(
            f"there is no executor '{name}' here; there are {', '.join(names())}, and a package adds one by "
            f"an entry point of the group {GROUP}"
        )
    module, _, attribute = _BUILT_IN[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def clashes() -> list[str]:
    """A sentence for each name that is refused because it is taken twice."""
    return entry_points.clashes(_ENTRIES)


def title(name: str) -> str:
    """How messages name an executor: with the package that it comes from."""
    package = next((entry.distribution for entry in entry_points.offers(_ENTRIES) if entry.name == name), "")
    if name in _BUILT_IN or not package:
        return f"the executor '{name}'"
    return f"the executor '{name}' of the package {package}"


def _checked(entry: InstalledEntry, kind: Any) -> Any:
    """The protocol's module imports the settings, and they this one: so what a kind has is checked here."""
    reason, config = None, getattr(kind, "config", None)
    if not callable(getattr(kind, "open", None)):
        reason = f"{entry.target} must be an ExecutorKind whose open is a function, and is {kind!r:.80}"
    elif not (isinstance(config, type) and issubclass(config, BaseModel)):
        reason = f"{entry.target}.config must be a class made from ProfileSettings, and is {config!r:.80}"
    if reason is not None:
        raise entry_points.broken(_ENTRIES, entry, reason)
    return kind
