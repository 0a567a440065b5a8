"""Which executors there are, by the ``backend`` of a profile; each is imported when it is asked for.

A package adds one by an entry point of the group `GROUP` that leads to a
`nemo_helix_server.executors.base.ExecutorKind`.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any

from nemo_helix_server.errors import ServerError

GROUP = "nemo_helix.executors"
DEFAULT = "subprocess"
"""The executor of the built-in profiles, and of starts from before the name was on record."""
_BUILT_IN = {
    DEFAULT: "nemo_helix_server.executors.subprocesses:KIND",
    "slurm": "nemo_helix_server.executors.slurm.executor:KIND",
}


class UnknownExecutorError(ServerError):
    """There is no executor of this name, or it cannot be loaded; the message names those that there are."""


def names() -> tuple[str, ...]:
    """Every executor's name: what comes with the service first, then those of other packages."""
    return tuple(dict.fromkeys([*_BUILT_IN, *sorted(point.name for point in _added())]))


def load(name: str) -> Any:
    """The `nemo_helix_server.executors.base.ExecutorKind` of a name; raises `UnknownExecutorError`.

    What comes with the service cannot be replaced from outside.
    """
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    point = next((point for point in _added() if point.name == name), None)
    if point is None:
        raise UnknownExecutorError(
            f"there is no executor '{name}' here; there are {', '.join(names())}, and a package adds one by "
            f"an entry point of the group {GROUP}"
        )
    try:
        return point.load()
    except Exception as error:
        raise UnknownExecutorError(
            f"the executor '{name}' cannot be loaded from {point.value}: {type(error).__name__}: {error}"
        ) from error


def _added() -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=GROUP))
