"""Which service, as whom, in which workspace: from flags, environment and file, in this order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_helix_plugin.addresses import DEFAULT_BASE_URL, checked_base_url
from nemo_helix_plugin.config import file
from nemo_helix_plugin.config.document import Changes, Document, redacted
from nemo_helix_plugin.errors import ContextFileError

__all__ = [
    "OUTPUT_FORMATS",
    "TIMESTAMP_FORMATS",
    "Changes",
    "Resolved",
    "delete_context",
    "resolve",
    "set_context",
    "use_context",
    "view",
]

DEFAULT_WORKSPACE = "default"
FIRST_CONTEXT = "default"
OUTPUT_FORMATS = ("table", "json", "yaml", "markdown", "csv", "raw", "code")
TIMESTAMP_FORMATS = ("relative", "iso8601")

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Resolved:
    """Everything that a command or a client needs to know."""

    base_url: str = DEFAULT_BASE_URL
    workspace: str = DEFAULT_WORKSPACE
    context: str | None = None
    """The context's name; None when the file has none."""
    origin: str | None = None
    """What set the base URL instead of the context: ``NHX_BASE_URL`` or ``--base-url``."""
    certificate_authority: str | None = None
    output_format: str = "table"
    timestamp_format: str = "iso8601"
    truncate: bool = True
    color_output: bool | None = None
    """None: where standard output is a terminal."""
    default_model: str | None = None
    fast_model: str | None = None
    path: Path | None = None
    _token: str | None = field(default=None, repr=False)
    _token_file: str | None = None

    def access_token(self) -> str | None:
        """The token of requests, None for none; a workload's token file is read each time."""
        if not self._token_file:
            return self._token
        try:
            return Path(self._token_file).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise ContextFileError(
                f"NHX_WORKLOAD_IDENTITY_TOKEN_FILE names {self._token_file}, which cannot be read ({reason})"
            ) from error


def resolve(
    *,
    context: str | None = None,
    base_url: str | None = None,
    workspace: str | None = None,
    path: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Resolved:
    """What flags (the arguments), environment and file lead to; raises `ContextFileError`."""
    where = Path(path) if path is not None else file.default_path(environ)
    if path is not None and not where.exists():
        raise ContextFileError(f"there is no configuration file {where}; 'nemo config set' makes one")
    document = Document(file.read(where), where)
    name = context or environ.get("NHX_CURRENT_CONTEXT") or document.current_context
    entry = document.context(name) if name else {}
    cluster, user = document.cluster_of(entry), document.user_of(entry)
    overriding = base_url or environ.get("NHX_BASE_URL")
    token_file = environ.get("NHX_WORKLOAD_IDENTITY_TOKEN_FILE")
    given_token = environ.get("NHX_ACCESS_TOKEN")
    return Resolved(
        base_url=_base_url(overriding or document.text(cluster, "base_url") or DEFAULT_BASE_URL),
        workspace=workspace
        or environ.get("NHX_WORKSPACE")
        or document.text(entry, "workspace")
        or DEFAULT_WORKSPACE,
        context=name,
        origin=("--base-url" if base_url else "NHX_BASE_URL") if overriding else None,
        certificate_authority=document.text(cluster, "certificate_authority"),
        default_model=document.text(entry, "default_model"),
        fast_model=document.text(entry, "fast_model"),
        path=where,
        _token=given_token or (None if token_file else document.text(user, "token")),
        _token_file=None if given_token else token_file,
        **_preferences(document, entry, environ),
    )


def set_context(
    changes: Changes,
    *,
    context: str | None = None,
    activate: bool = False,
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Make or change a context, by default the current one, and return its name."""
    where = path or file.default_path(environ)
    if changes.base_url is not None:
        _base_url(changes.base_url)
    with file.editing(where) as content:
        document = Document(content, where)
        name = context or environ.get("NHX_CURRENT_CONTEXT") or document.current_context or FIRST_CONTEXT
        document.set_context(name, changes, activate=activate)
    return name


def use_context(name: str, *, path: Path | None = None, environ: Mapping[str, str] = os.environ) -> None:
    """Make a context the current one."""
    where = path or file.default_path(environ)
    Document(file.read(where), where).context(name)
    with file.editing(where) as content:
        Document(content, where).use_context(name)


def delete_context(
    name: str,
    *,
    prune_orphans: bool = False,
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> list[str]:
    """Remove a context; returns the names of all entries that are gone."""
    where = path or file.default_path(environ)
    Document(file.read(where), where).context(name)
    with file.editing(where) as content:
        return Document(content, where).delete_context(name, prune_orphans=prune_orphans)


def view(
    *,
    context: str | None = None,
    all_contexts: bool = False,
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """What the file says without its secrets: of one context, by default the current one, or of all."""
    where = path or file.default_path(environ)
    document = Document(file.read(where), where)
    name = context or environ.get("NHX_CURRENT_CONTEXT") or document.current_context
    shown = dict(document.content)
    if name and not all_contexts:
        entry = document.context(name)
        parts = {
            "clusters": document.cluster_of(entry),
            "users": document.user_of(entry),
            "contexts": entry,
        }
        shown.update({section: [part] for section, part in parts.items() if part})
        shown["current_context"] = document.current_context
    result: dict[str, Any] = redacted(shown)
    return result


def _base_url(text: str) -> str:
    try:
        return checked_base_url(text)
    except ValueError as error:
        raise ContextFileError(str(error)) from None


def _preferences(
    document: Document, context: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, Any]:
    kept = document.preferences(context)
    output = environ.get("NHX_OUTPUT_FORMAT") or document.text(kept, "output_format")
    timestamps = environ.get("NHX_TIMESTAMP_FORMAT") or document.text(kept, "timestamp_format")
    truncate = _switch(environ, "NHX_TRUNCATE", document.flag(kept, "truncate"))
    return {
        "output_format": _one_of("output_format", output, OUTPUT_FORMATS) or "table",
        "timestamp_format": _one_of("timestamp_format", timestamps, TIMESTAMP_FORMATS) or "iso8601",
        "truncate": True if truncate is None else truncate,
        "color_output": _switch(environ, "NHX_COLOR_OUTPUT", document.flag(kept, "color_output")),
    }


def _one_of(what: str, value: str | None, allowed: tuple[str, ...]) -> str | None:
    if value is not None and value not in allowed:
        raise ContextFileError(f"the {what} is {value!r}; it may be {', '.join(allowed)}")
    return value


def _switch(environ: Mapping[str, str], variable: str, kept: bool | None) -> bool | None:
    text = environ.get(variable, "").strip().lower()
    if not text:
        return kept
    if text in _YES | _NO:
        return text in _YES
    raise ContextFileError(f"{variable} is {text!r}; it may be true or false")
