"""The training backends, as clients and the service know them: the only place that lists them by name.

The commands `nemo customization <name>`, the clients' `customization.<name>`, the section of the service's
settings and the reference page are made of this. What the service makes of an input is a folder of that name
in ``nemo_helix_server/customizer/backends``.

Another package brings a backend by an entry point of the group ``nemo_helix.backends``, which names a
`BackendDescription`, and one of the group ``nemo_helix_server.backends`` for the service. A package that is
broken, or that brings a name which is taken, harms only those who ask for that backend.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from nemo_helix_plugin import errors
from nemo_runs.errors import EntryPointError
from nemo_runs.extensions import entry_points
from nemo_runs.extensions.entry_points import EntryGroup
from nemo_runs.extensions.metadata import InstalledEntry

if TYPE_CHECKING:
    from nemo_helix_plugin.jobs.models import RequestModel

GROUP = "nemo_helix.backends"
"""An entry point of this group is ``<backend> = <module>:<attribute>``, a `BackendDescription`."""
RESERVED = frozenset({"backend", "from_client", "health", "templates"})
"""What a client's `customization` has besides backends."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_TYPES = "nemo_helix_plugin.customization.types"


def is_name(name: str) -> bool:
    """Whether a backend, or an engine, can have a name."""
    return bool(_NAME.fullmatch(name)) and name not in RESERVED


class BackendDescription(NamedTuple):
    """What a client needs to know of a backend."""

    name: str
    """A lowercase word: of the command, of the client's attribute, and in the routes and settings."""
    summary: str
    """One line for the help."""
    input: str
    """The type of its input spec, as ``module:class``; it is imported when a spec is checked."""
    references: Mapping[str, tuple[str, ...]]
    """The field of the input that names each thing: ``model``, ``dataset``, ``validation``, ``environment``.

    `--upload-…` writes into it, and the service looks up what it names.
    """

    def input_type(self) -> type[RequestModel]:
        """The type of its input spec; raises `BackendLoadError`."""
        if self.name in BUILT_IN:
            module, _, attribute = self.input.partition(":")
            built_in: type[RequestModel] = getattr(importlib.import_module(module), attribute)
            return built_in
        try:
            found: type[RequestModel] = entry_points.load(ENTRIES, self._entry_of_input(), type)
        except EntryPointError as error:
            raise BackendLoadError(str(error)) from error
        return found

    def _entry_of_input(self) -> InstalledEntry:
        brought = [entry for entry in entry_points.offers(ENTRIES) if entry.name == self.name]
        package = brought[0].distribution if brought else self.input.partition(".")[0]
        return InstalledEntry(self.name, self.input, package)


_BUILT_IN = (
    BackendDescription(
        name="automodel",
        summary="Supervised fine-tuning with NeMo Automodel.",
        input=f"{_TYPES}.automodel:AutomodelJobInput",
        references={
            "model": ("model",),
            "dataset": ("dataset", "training"),
            "validation": ("dataset", "validation"),
        },
    ),
    BackendDescription(
        name="unsloth",
        summary="Supervised fine-tuning with Unsloth on one device.",
        input=f"{_TYPES}.unsloth:UnslothJobInput",
        references={
            "model": ("model", "name"),
            "dataset": ("dataset", "path"),
            "validation": ("dataset", "validation_path"),
        },
    ),
    BackendDescription(
        name="rl",
        summary="Preference optimization (DPO), reinforcement learning (GRPO).",
        input=f"{_TYPES}.rl:RlJobInput",
        references={"model": ("model",), "dataset": ("dataset",), "environment": ("environment",)},
    ),
)
BUILT_IN: Mapping[str, BackendDescription] = {backend.name: backend for backend in _BUILT_IN}


ENTRIES = EntryGroup(GROUP, "backend", BUILT_IN.keys())


class BackendLoadError(errors.NemoError):
    """A package brings a backend that cannot be used; the message names both."""


@functools.cache
def names() -> tuple[str, ...]:
    """All backends: the built-in ones, then those of other packages; whether each works is not tried."""
    return (*BUILT_IN, *entry_points.names(ENTRIES))


@functools.cache
def find(name: str) -> BackendDescription:
    """A backend by name; raises `KeyError` for one that nobody brings, and `BackendLoadError`."""
    try:
        entry = entry_points.find(ENTRIES, name)
        if entry is None:
            return BUILT_IN[name]
        if not is_name(name):
            reason = f"a name is a lowercase word, and none of {_reserved()}"
            raise entry_points.broken(ENTRIES, entry, reason)
        found: BackendDescription = entry_points.load(ENTRIES, entry, BackendDescription)
        if found.name != name:
            raise entry_points.broken(ENTRIES, entry, f"{entry.target} has another name, '{found.name}'")
    except EntryPointError as error:
        raise BackendLoadError(str(error)) from error
    return found


def summary(name: str) -> str:
    """The line of a backend in a list; of one that does not load, why."""
    try:
        return find(name).summary
    except BackendLoadError as error:
        return str(error)


def _reserved() -> str:
    return ", ".join(sorted(RESERVED))
