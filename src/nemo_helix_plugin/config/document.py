"""What a configuration file says, and changes of it; keys that this version does not know are kept.

::

    current_context: lab
    clusters: [{name: lab-cluster, base_url: https://…, certificate_authority: /…}]
    users: [{name: lab-user, type: oauth, token: …}]
    contexts: [{name: lab, cluster: lab-cluster, user: lab-user, workspace: default, preferences: {…}}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nemo_helix_plugin.addresses import shown_url
from nemo_helix_plugin.errors import ContextFileError
from nemo_runs.suggestions import suggestion

HIDDEN = "REDACTED"
_SECRET_WORDS = ("token", "secret", "password", "api_key", "apikey")
_NOT_SECRET = frozenset({"token_broker_url"})

Entry = dict[str, Any]


class Changes(NamedTuple):
    """What `Document.set_context` sets; None leaves a value as it is."""

    base_url: str | None = None
    certificate_authority: str | None = None
    access_token: str | None = None
    workspace: str | None = None
    output_format: str | None = None
    timestamp_format: str | None = None
    truncate: bool | None = None
    color_output: bool | None = None
    default_model: str | None = None
    fast_model: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file; changes change ``content`` itself."""

    content: Entry
    path: Path
    """For messages."""

    @property
    def current_context(self) -> str | None:
        """Name of the context that is used when none is named."""
        return self._text(self.content, "current_context", "current_context")

    def context_names(self) -> list[str]:
        """All contexts, in the file's order."""
        return [str(entry["name"]) for entry in self._entries("contexts")]

    def context(self, name: str) -> Entry:
        """A context; raises `ContextFileError` that names those there are."""
        found = self._find("contexts", name)
        if found is None:
            names = self.context_names()
            known = ", ".join(names) or "none yet; 'nemo config set' makes one"
            hint = suggestion(name, names)
            raise ContextFileError(f"there is no context '{name}'{hint} in {self.path}; there are: {known}")
        return found

    def cluster_of(self, context: Mapping[str, Any]) -> Entry:
        """The cluster of a context, empty when it has none; raises `ContextFileError` when it is missing."""
        return self._referred(context, "cluster", "clusters")

    def user_of(self, context: Mapping[str, Any]) -> Entry:
        """The user of a context, empty when it has none; raises `ContextFileError` when it is missing."""
        return self._referred(context, "user", "users")

    def text(self, entry: Mapping[str, Any], key: str) -> str | None:
        """A value that must be text, or not there."""
        return self._text(entry, key, f"{key} of {entry.get('name', 'an entry')}")

    def flag(self, entry: Mapping[str, Any], key: str) -> bool | None:
        """A value that must be true or false, or missing; raises `ContextFileError`."""
        value = entry.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise ContextFileError(f"{self.path}: {key} must be true or false, not {value!r}")

    def preferences(self, context: Mapping[str, Any]) -> Entry:
        """How output looks in a context; raises `ContextFileError` where that is not a mapping."""
        value = context.get("preferences")
        if value is None or isinstance(value, dict):
            return value or {}
        raise ContextFileError(f"{self.path}: preferences of {context.get('name')} must be a mapping")

    def set_context(self, name: str, changes: Changes, *, activate: bool = False) -> None:
        """Make or change a context; the first one becomes the current one, later ones if ``activate``."""
        first = not self.context_names()
        context = self._made("contexts", name)
        if changes.base_url is not None or changes.certificate_authority is not None:
            cluster = self._member(context, "cluster", "clusters")
            _put(cluster, changes, ("base_url", "certificate_authority"))
        if changes.access_token is not None:
            self._member(context, "user", "users").update(type="oauth", token=changes.access_token)
        elif "user" not in context:
            self._member(context, "user", "users").setdefault("type", "no-auth")
        _put(context, changes, ("workspace", "default_model", "fast_model"))
        wanted: Entry = {}
        _put(wanted, changes, ("output_format", "timestamp_format", "truncate", "color_output"))
        if wanted:
            context["preferences"] = {**self.preferences(context), **wanted}
        if first or activate:
            self.content["current_context"] = name

    def use_context(self, name: str) -> None:
        """Make a context the current one; raises `ContextFileError` if there is none of that name."""
        self.context(name)
        self.content["current_context"] = name

    def delete_context(self, name: str, *, prune_orphans: bool = False) -> list[str]:
        """Remove a context, and if asked the clusters and users nobody refers to; returns all names gone."""
        self.context(name)
        gone = [name]
        self._keep("contexts", lambda entry: entry["name"] != name)
        if self.current_context == name:
            self.content["current_context"] = None
        for key, section in (("cluster", "clusters"), ("user", "users")) if prune_orphans else ():
            used = {entry.get(key) for entry in self._entries("contexts")}
            gone += [str(entry["name"]) for entry in self._entries(section) if entry["name"] not in used]
            self._keep(section, lambda entry, used=used: entry["name"] in used)
        return gone

    def _keep(self, section: str, wanted: Any) -> None:
        if section in self.content:
            self.content[section] = [entry for entry in self._entries(section) if wanted(entry)]

    def _entries(self, section: str) -> list[Entry]:
        entries = self.content.get(section)
        if entries is None:
            return []
        if not isinstance(entries, list):
            raise ContextFileError(f"{self.path}: {section} must be a list of entries with names")
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise ContextFileError(f"{self.path}: {section}[{number}] must be a mapping with a name")
        return entries

    def _find(self, section: str, name: str) -> Entry | None:
        return next((entry for entry in self._entries(section) if entry["name"] == name), None)

    def _referred(self, context: Mapping[str, Any], key: str, section: str) -> Entry:
        name = self._text(context, key, f"{key} of the context {context.get('name')}")
        found = self._find(section, name) if name else {}
        if found is None:
            place = f"the context '{context['name']}' in {self.path}"
            raise ContextFileError(f"{place} refers to the {key} '{name}', which is not there")
        return found

    def _made(self, section: str, name: str) -> Entry:
        found = self._find(section, name)
        if found is None:
            found = {"name": name}
            self.content[section] = [*self._entries(section), found]
        return found

    def _member(self, context: Entry, key: str, section: str) -> Entry:
        name = self._text(context, key, key) or f"{context['name']}-{key}"
        context[key] = name
        return self._made(section, name)

    def _text(self, entry: Mapping[str, Any], key: str, what: str) -> str | None:
        value = entry.get(key)
        if value is None or isinstance(value, str):
            return value or None
        raise ContextFileError(f"{self.path}: {what} must be text, not {type(value).__name__}")


def _put(entry: Entry, changes: Changes, keys: Iterable[str]) -> None:
    entry.update({key: getattr(changes, key) for key in keys if getattr(changes, key) is not None})


def redacted(value: Any, key: str = "") -> Any:
    """The same without any secret, to be shown."""
    if isinstance(value, dict):
        return {name: redacted(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner, key) for inner in value]
    lowered = key.lower()
    if value and lowered not in _NOT_SECRET and any(word in lowered for word in _SECRET_WORDS):
        return HIDDEN
    return shown_url(value) if isinstance(value, str) else value
