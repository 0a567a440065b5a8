"""Pages as files: an application is asked for each page that is linked; links lead from file to file."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_pages.links import BundledLinks, bundled_file
from nemo_pages.rendering import BUNDLED
from nemo_pages.static_files import static_files
from nemo_runs.clock import SystemClock

MOST_PAGES: Final = 5_000
_ONLY_LIVE: Final = ("vendor/htmx.min.js", "vendor/idiomorph-ext.min.js")
_ABSENT: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Not in this bundle</title></head>
<body><main><h1>Not in this bundle</h1>
<p>This page was left out when the bundle was written.</p></main></body>
</html>
"""


@dataclass(slots=True)
class WrittenBundle:
    """What was written."""

    pages: int = 0
    left_out: list[str] = field(default_factory=list)
    """Addresses that are linked and were not written: the server refused them, or there are too many."""


def write_bundle(
    app: ASGIApp,
    folder: Path,
    *,
    keep: Callable[[str], bool] = lambda _: True,
    most_pages: int = MOST_PAGES,
) -> WrittenBundle:
    """Write the page ``/`` and all that it leads to, at most ``most_pages`` of them, into an empty folder.

    ``keep`` says of an address whether its page may be in the bundle. Pages that were left out are replaced
    by one that says so. Raises `OSError` where a file cannot be written.
    """
    return asyncio.run(_write(app, folder, keep, most_pages))


async def _write(app: ASGIApp, folder: Path, keep: Callable[[str], bool], most_pages: int) -> WrittenBundle:
    made_at = SystemClock().seconds()
    written, waiting, known = WrittenBundle(), deque(["/"]), {"/"}

    def found(address: str) -> None:
        if address not in known:
            known.add(address)
            waiting.append(address)

    while waiting:
        address = waiting.popleft()
        page = None
        if written.pages < most_pages and keep(address):
            page = await _page(app, address, BundledLinks(address, found, made_at))
        if page is None:
            written.left_out.append(address)
        else:
            written.pages += 1
        _put(folder / bundled_file(address), (page or _ABSENT).encode())
    for name, content in static_files().items():
        if name not in _ONLY_LIVE:
            _put(folder / "pages" / "static" / name, content)
    return written


async def _page(app: ASGIApp, address: str, links: BundledLinks) -> str | None:
    async def bundled(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, BUNDLED: links}, receive, send)

    transport = httpx.ASGITransport(bundled)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get(address)
    is_page = answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    return answer.text if is_page else None


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
