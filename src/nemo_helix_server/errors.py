"""The errors of the service: one base, each with the HTTP status it becomes.

    ServerError
    ├── BadRequestError        400   the request cannot be read
    ├── UnauthenticatedError   401   nobody the service knows
    ├── ForbiddenError         403   somebody who may not do this
    ├── NotFoundError          404   there is no such thing
    ├── ConflictError          409   not in this state; the message names what would work
    ├── InvalidError           422   a value that cannot be accepted
    ├── StoreError             500   the database cannot be used as it is
    ├── UnavailableError       503   something the service needs is away
    └── DiskFullError          507   there is no space for what was sent

A message is one sentence: what is wrong, where, and what would be right. It never holds a secret value.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import ClassVar


class ServerError(Exception):
    """The service could not do what was asked."""

    status: ClassVar[int] = 500
    fixed_headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers: dict[str, str] = {**self.fixed_headers, **(headers or {})}


class MalformedRequestError(ServerError):
    """The request cannot be read."""

    status = 400


class UnauthenticatedError(ServerError):
    """The caller did not say who they are, or the token is unknown, revoked or expired."""

    status = 401
    fixed_headers = {"WWW-Authenticate": "Bearer"}  # noqa: RUF012 - the base declares it a class variable


class ForbiddenError(ServerError):
    """The caller's role or workspace does not allow this."""

    status = 403


class UnknownNameError(ServerError):
    """There is no such thing in this workspace."""

    status = 404


class StateConflictError(ServerError):
    """The thing is not in a state that allows this; asking again changes nothing."""

    status = 409
    fixed_headers = {"x-should-retry": "false"}  # noqa: RUF012 - the base declares it a class variable


class InvalidError(ServerError):
    """A value in the request cannot be accepted."""

    status = 422


class StoreError(ServerError):
    """The database, or a file of the service beside it, cannot be used as it is."""


class UnavailableError(ServerError):
    """Something that the service needs is away; asking again later may work."""

    status = 503


class NoSpaceError(ServerError):
    """There is no free space on a disk of the service; nothing was changed."""

    status = 507


def unwritable(what: str, error: OSError) -> ServerError:
    """Why ``what``, such as ``the file 'a.txt'``, could not be written."""
    if is_full(error):
        return NoSpaceError(f"{what} could not be written: the service's disk, or its quota, is full")
    return UnavailableError(f"{what} could not be written: {error.strerror or error}")


def is_full(error: OSError) -> bool:
    """Whether an error says that no space is left."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}
