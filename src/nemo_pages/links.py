"""Addresses of pages: below a path of a server, or between the files of a bundle. Nothing is absolute."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote, unquote, urlencode

Parameter = str | int | float | list[str] | tuple[str, ...] | None
"""A value of an address's query; a list is repeated, nothing at all is left out."""


class Links(Protocol):
    """Where other pages and static files are, seen from one page."""

    def url(self, path: str, query: Mapping[str, Parameter]) -> str:
        """The address of a page, whose ``path`` begins with a slash and is quoted here."""
        ...

    def static(self, name: str, digest: str) -> str:
        """The address of a static file; ``digest`` changes with its content."""
        ...


@dataclass(frozen=True, slots=True)
class ServedLinks:
    """Links of a page that a server sends, below ``root`` (empty, or a path without a slash at its end)."""

    root: str = ""

    def url(self, path: str, query: Mapping[str, Parameter]) -> str:
        """See `Links.url`."""
        return f"{quote(self.root)}{quote(path)}{query_text(query)}"

    def static(self, name: str, digest: str) -> str:
        """See `Links.static`."""
        return f"{quote(self.root)}/pages/static/{quote(name)}?v={digest}"


KEPT_IN_BUNDLES: Final = ("page", "tasks", "state", "show")
"""Parts of a query that make a page of a bundle of their own, on links of a page to itself."""


@dataclass(frozen=True, slots=True)
class BundledLinks:
    """Links of a page that is a file."""

    here: str
    """The page's own address, quoted, as a server would have it."""
    found: Callable[[str], None] = lambda _: None
    """Called with the address, quoted and with its query, of each page that is linked."""
    made_at: float | None = None
    """When the bundle is made: UTC seconds."""

    def url(self, path: str, query: Mapping[str, Parameter]) -> str:
        """See `Links.url`; of a query only `KEPT_IN_BUNDLES` is kept, which limits the number of pages."""
        own = quote(path) == self.here.partition("?")[0]
        kept = {name: value for name, value in query.items() if own and name in KEPT_IN_BUNDLES}
        address = f"{quote(path)}{query_text(kept)}"
        self.found(address)
        return quote(relative_file(self.here, bundled_file(address)))

    def static(self, name: str, digest: str) -> str:  # noqa: ARG002 - of `Links`
        """See `Links.static`."""
        return quote(relative_file(self.here, f"pages/static/{name}"))


def query_text(query: Mapping[str, Parameter]) -> str:
    """A query with its question mark; empty where every value is."""
    pairs = [
        (name, str(item))
        for name, value in query.items()
        for item in (value if isinstance(value, list | tuple) else [value])
        if item is not None and item != ""
    ]
    return f"?{urlencode(pairs)}" if pairs else ""


def bundled_file(address: str) -> str:
    """The file of a bundle that is the page at a quoted address; never above the bundle."""
    path, _, query = address.partition("?")
    parts = [part for part in unquote(path).split("/") if part not in ("", ".", "..")]
    name = re.sub(r"[^A-Za-z0-9]+", "-", query) or "index"
    return "/".join([*parts, f"{name}.html"])


def relative_file(here: str, file: str) -> str:
    """The way from the page at ``here`` to a file of the bundle."""
    return posixpath.relpath(file, posixpath.dirname(bundled_file(here)) or ".")
