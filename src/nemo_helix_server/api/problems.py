"""Errors as HTTP answers: ``{"detail": "<one sentence>"}``, and nothing of the inside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import sqlalchemy.exc
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from nemo_helix_server import executor_kinds
from nemo_helix_server.errors import ServerError, StateConflictError, is_full
from nemo_helix_server.executors.base import ExecutorError
from nemo_helix_server.executors.calls import BrokenExecutorError
from nemo_runs.errors import DiskFullError as RunsDiskFullError

_LOG = logging.getLogger(__name__)
Handler = Callable[[Request, Exception], Coroutine[Any, Any, JSONResponse]]
_RETRY_AFTER = "2"
_RETRY_EXECUTOR_AFTER = "10"
"""Seconds, as a header: what an executor asks may be on the other side of a network."""


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="One sentence: what is wrong, and what would be right.")


class FieldProblem(BaseModel):
    """One field of a request that cannot be accepted."""

    loc: list[str | int] = Field(description="Its position.")
    msg: str
    type: str


class ValidationProblem(BaseModel):
    """Why the fields of a request cannot be accepted."""

    detail: list[FieldProblem] | str
    message: str | None = Field(default=None, description="The first problem as one sentence.")


_ALWAYS = (400, 401, 403, 408, 413, 414, 415, 421, 500, 503, 507)
"""What any route may answer: `intake` and the access tokens come before all of them."""


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of a route: these, and those that every route has."""
    return {status: _documented(status) for status in sorted({*_ALWAYS, *statuses})}


def _documented(status: int) -> dict[str, Any]:
    model = ValidationProblem if status == HTTPStatus.UNPROCESSABLE_ENTITY else Problem
    documented: dict[str, Any] = {"model": model, "description": HTTPStatus(status).phrase}
    if status == HTTPStatus.CONFLICT:
        documented["headers"] = {
            "x-should-retry": {
                "description": "`false`: asking again changes nothing",
                "schema": {"type": "string"},
            }
        }
    return documented


def install(app: FastAPI) -> None:
    """Make every error of the routes an answer."""
    for kind, handler in _handlers().items():
        app.add_exception_handler(kind, handler)


async def respond(request: Request, error: Exception) -> JSONResponse:
    """The answer to an error, by the handler of the nearest of its classes."""
    handlers = _handlers()
    return await next(handlers[kind] for kind in type(error).__mro__ if kind in handlers)(request, error)


def _handlers() -> dict[type[Exception], Handler]:
    return {
        ServerError: _server_error,
        ExecutorError: _executor,
        RequestValidationError: _invalid,
        HTTPException: _http,
        sqlalchemy.exc.OperationalError: _database_away,
        OSError: _system,
        RunsDiskFullError: _no_space,
        Exception: _unexpected,
    }


def _respond(
    status: int, content: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    extra = dict(headers or {})
    if status == HTTPStatus.CONFLICT:
        extra.setdefault(*next(iter(StateConflictError.fixed_headers.items())))
    return JSONResponse(dict(content), status, headers=extra)


async def _server_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServerError)
    return _respond(error.status, {"detail": error.detail}, error.headers)


async def _executor(_: Request, error: Exception) -> JSONResponse:
    """An executor cannot do something now: neither the request nor the service is at fault."""
    assert isinstance(error, ExecutorError)
    detail = " ".join(str(error).split())
    _LOG.error("an executor cannot do what a request needs: %s", detail)
    if error.executor and not isinstance(error, BrokenExecutorError):  # that names its executor itself
        detail = f"{executor_kinds.title(error.executor)} cannot do that at the moment: {detail}"
    return _respond(503, {"detail": detail}, {"Retry-After": _RETRY_EXECUTOR_AFTER})


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # never the input itself: it may be a secret's value
    found = [{"loc": list(item["loc"]), "msg": item["msg"], "type": item["type"]} for item in error.errors()]
    return _respond(422, {"detail": found, "message": sentence(found)})


def sentence(found: Sequence[Mapping[str, Any]]) -> str:
    """The first of some field problems as a sentence, with the number of the others."""
    if not found:
        return "the request cannot be accepted"
    first = found[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the " + str(first["loc"][0])
    text = str(first["msg"]).removeprefix("Value error, ")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{where}: {text[:1].lower()}{text[1:]}{more}"


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    details = {
        404: "there is nothing at this path; the routes are listed at /openapi.json",
        405: f"{request.method} is not possible here; the header Allow names what is",
    }
    detail = details.get(error.status_code, str(error.detail))
    return _respond(error.status_code, {"detail": detail}, error.headers)


async def _database_away(_: Request, error: Exception) -> JSONResponse:
    _LOG.error("the database cannot be used: %s", error)
    detail = "the database cannot be used at the moment; the service's log says why"
    return _respond(503, {"detail": detail}, {"Retry-After": _RETRY_AFTER})


async def _system(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OSError)
    return await (_no_space if is_full(error) else _unexpected)(request, error)


async def _no_space(_: Request, error: Exception) -> JSONResponse:
    _LOG.error("there is no disk space: %s", error)
    return _respond(507, {"detail": "a disk of the service, or its quota, is full: nothing was changed"})


async def _unexpected(_: Request, error: Exception) -> JSONResponse:
    _LOG.error("unexpected %s: %s", type(error).__name__, error)
    return _respond(500, {"detail": "something unexpected happened; the service's log says what"})
