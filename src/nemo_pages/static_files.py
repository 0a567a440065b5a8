"""The static files of pages: which there are, their digests, and a route that serves them."""

from __future__ import annotations

import functools
import hashlib
import mimetypes
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

_FOLDER = "static"
_KEPT = "public, max-age=31536000, immutable"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def _files(folder: Traversable, before: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _files(entry, f"{before}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):
            found[f"{before}{entry.name}"] = entry.read_bytes()
    return found


@functools.cache
def static_files() -> dict[str, bytes]:
    """The content of each static file by its name, such as ``vendor/htmx.min.js``."""
    return _files(resources.files("nemo_pages") / _FOLDER)


@functools.cache
def digest(name: str) -> str:
    """Twelve digits that change with the content of a file. Raises `KeyError` for an unknown name."""
    return hashlib.sha256(static_files()[name]).hexdigest()[:12]


async def _serve(request: Request) -> Response:
    name = request.path_params["name"]
    content = static_files().get(name)
    if content is None:
        return PlainTextResponse("There is no such file.", status_code=404)
    suffix = name[name.rfind(".") :]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "text/plain"
    tag = f'"{digest(name)}"'
    headers = {"cache-control": _KEPT if request.query_params.get("v") == digest(name) else "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag, **headers})
    return Response(content, media_type=kind, headers={"etag": tag, **headers})


def static_route() -> Route:
    """The route ``/pages/static/…``; a file whose address has its digest is kept by browsers for a year."""
    return Route("/pages/static/{name:path}", _serve, methods=["GET"], name="static")
