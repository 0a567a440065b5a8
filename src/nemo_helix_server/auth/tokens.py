"""Access tokens: 256 random bits that are shown once; only their SHA-256 is kept."""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

from nemo_helix_server.errors import UnauthenticatedError
from nemo_helix_server.jobs.model import Caller, Token
from nemo_runs.clock import SECOND, wire

PREFIX = "nhx_"
"""Tokens begin with it, so that scanners for leaked credentials can find them."""

HOW_TO_GET_ONE = "`nemo auth token create` makes one"


class Minted(NamedTuple):
    """A new token: what its owner gets, and what is kept."""

    token: str
    digest: str


def mint() -> Minted:
    """A new random token."""
    token = PREFIX + secrets.token_urlsafe(32)
    return Minted(token, digest_of(token))


def digest_of(token: str) -> str:
    """What is kept of a token; enough for 256 random bits, which no dictionary has."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def caller_of(record: Token | None, now: int) -> Caller:
    """Who a presented token is; raises `UnauthenticatedError` saying why it is nobody."""
    if record is None:
        raise UnauthenticatedError(f"this access token is not known here; {HOW_TO_GET_ONE}")
    if record.revoked_at is not None:
        raise UnauthenticatedError(
            f"the access token '{record.name}' was revoked at {wire(record.revoked_at)}; {HOW_TO_GET_ONE}"
        )
    if record.expires_at is not None and record.expires_at <= now:
        raise UnauthenticatedError(
            f"the access token '{record.name}' expired at {wire(record.expires_at)}; {HOW_TO_GET_ONE}"
        )
    return Caller(name=record.name, role=record.role, workspace=record.workspace)


def expiry(now: int, seconds: int | None) -> int | None:
    """When a token made now expires, in microseconds; `None` for never."""
    return None if seconds is None else now + seconds * SECOND
