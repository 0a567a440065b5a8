"""The backends of this service by name: the built-in folders, and what other packages bring."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator

from nemo_helix_plugin import entry_points
from nemo_helix_plugin.customization import backends as descriptions
from nemo_helix_server.customizer.backends.base import Backend
from nemo_helix_server.errors import ServerError, UnknownNameError

GROUP = "nemo_helix_server.backends"
"""An entry point of this group is ``<backend> = <module>:<attribute>``, a `Backend`."""


class BackendUnusableError(ServerError):
    """A package brings a backend that cannot be used; the message names both."""


@functools.cache
def find(name: str) -> Backend:
    """A backend by name; raises `UnknownNameError` or `BackendUnusableError`."""
    if name in descriptions.BUILT_IN:
        built_in: Backend = importlib.import_module(f"{__package__}.{name}").BACKEND
        return built_in
    if name not in descriptions.names():
        known = ", ".join(descriptions.names())
        raise UnknownNameError(f"there is no backend '{name}'; known are {known}")
    entry = entry_points.installed(GROUP).get(name)
    if entry is None:
        raise BackendUnusableError(
            f"the backend '{name}' is for clients alone: its package has no entry point of the group {GROUP}"
        )
    try:
        found, description = entry_points.load(entry.target), descriptions.find(name)
    except Exception as error:  # foreign code: an import may raise anything
        raise BackendUnusableError(_broken(entry, f"{type(error).__name__}: {error}")) from error
    if not isinstance(found, Backend) or found.description != description:
        raise BackendUnusableError(_broken(entry, f"{entry.target} is not a Backend of that description"))
    if not descriptions.is_name(found.engine):
        reason = f"its engine must be named by a lowercase word, not '{found.engine}'"
        raise BackendUnusableError(_broken(entry, reason))
    return found


def usable() -> Iterator[Backend]:
    """All backends that can be used, in the order of their names' list."""
    for name in descriptions.names():
        try:
            yield find(name)
        except BackendUnusableError:
            continue


def _broken(entry: entry_points.InstalledEntry, reason: str) -> str:
    return f"the backend '{entry.name}' of the package {entry.distribution} cannot be used ({reason})"
