"""Addresses of services: which are usable, and how they are shown."""

from __future__ import annotations

from urllib.parse import urlsplit

DEFAULT_BASE_URL = "http://localhost:8080"


def checked_base_url(text: str) -> str:
    """``text`` itself if a service can be there; raises ValueError with one sentence."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        usable = False
    else:
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname)
        usable = whole and not parts.query and not parts.fragment
    if not usable:
        shown = shown_url(text)
        raise ValueError(f"the base URL {shown!r} must be like {DEFAULT_BASE_URL} or https://host.example")
    return text


def shown_url(url: str) -> str:
    """A URL without the user and password that it may hold."""
    head, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{head}{separator}{authority.rpartition('@')[2]}{slash}{path}"
