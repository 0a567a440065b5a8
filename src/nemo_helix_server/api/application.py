"""The ASGI application: every route, and what each request goes through before it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from nemo_helix_plugin import __version__
from nemo_helix_server.api import problems
from nemo_helix_server.api.access_log import AccessLog
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.api.request_validation import RequestValidation
from nemo_helix_server.api.routes import (
    administration,
    checkpoints,
    customization,
    events,
    files,
    job_parts,
    jobs,
    logs,
    models,
    platform,
    results,
)

ROUTERS = (
    platform,
    jobs,
    job_parts,
    results,
    logs,
    checkpoints,
    events,
    customization,
    files,
    models,
    administration,
)
_DESCRIPTION = 'Jobs that pause, resume and run again. An error is `{"detail": "<one sentence>"}`.'


def make_application(
    parts: ServiceParts,
    *,
    loopback_only: bool,
    hosts: Collection[str] = (),
    beside: Callable[[ASGIApp], ASGIApp] = lambda api: api,
    start: Callable[[], None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
) -> ASGIApp:
    """The application; ``start`` and ``stop`` frame its life (the controller's, outside of tests).

    ``beside`` puts other applications beside the API, behind the checks of each request; ``hosts`` are those
    of proxies, see `request_validation`.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        broadcasting = asyncio.create_task(parts.broadcaster.run())
        start()
        try:
            yield
        finally:
            parts.broadcaster.close()
            await broadcasting
            await asyncio.to_thread(stop)

    app = FastAPI(
        title="NeMo Helix Jobs",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        generate_unique_id_function=_operation_id,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.parts = parts
    problems.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    return AccessLog(RequestValidation(beside(app), loopback_only=loopback_only, hosts=hosts))


def _operation_id(route: APIRoute) -> str:
    return route.name
