"""Tokens of steps: JSON Web Tokens, of which nothing is kept. A step may read itself and write its own task.

The key is a file of the data directory that only the service's user can read. The same key signs the tokens
of commands that look after the service on its own machine (`Claims.maintenance`): who can read the file
could read the database too.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import jwt
from jwt.algorithms import HMACAlgorithm

from nemo_helix_server.errors import ServerError, UnauthenticatedError
from nemo_runs.clock import SECOND
from nemo_runs.durable import files

PREFIX = "nhxs_"
KEY_FILE = "signing.key"
_KEY_BYTES = 32
_ALGORITHM = "HS256"
_AUDIENCE = "step"
_NAMES = ("workspace", "job", "job_id", "step", "task")


@dataclass(frozen=True, slots=True)
class Claims:
    """What a signed token says."""

    workspace: str
    job: str
    """Name of the job."""
    job_id: str
    step: str
    task: str
    expires_at: int
    """Microseconds UTC."""

    @classmethod
    def maintenance(cls, expires_at: int) -> Claims:
        """Claims of a command on the service's own data directory."""
        return cls("-", "", "", "", "", expires_at)

    @property
    def is_maintenance(self) -> bool:
        """Whether this is the owner of the data directory, not a step."""
        return self.task == ""


def load_key(data_dir: Path) -> bytes:
    """The signing key of a data directory, made when it is not there yet."""
    path = data_dir / KEY_FILE
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process was first, and its key is whole
            files.create_file(path, secrets.token_bytes(_KEY_BYTES), mode=0o600)
        key = path.read_bytes()
    if len(key) != _KEY_BYTES or os.stat(path).st_mode & 0o077:
        raise ServerError(
            f"the signing key {path} is damaged or others can read it; remove it, a new one is made"
        )
    return key


def sign(key: bytes, claims: Claims) -> str:
    """The token that says ``claims``: `PREFIX` and a JSON Web Token."""
    said = dataclasses.asdict(claims)
    expires_at = said.pop("expires_at")
    return PREFIX + jwt.encode({**said, "aud": _AUDIENCE, "exp": expires_at / SECOND}, key, _ALGORITHM)


def read(key: bytes, token: str, now: int) -> Claims:
    """What a token of this key says; raises `UnauthenticatedError` when it is forged, damaged or too old.

    ``now`` is in microseconds UTC.
    """
    text = token.removeprefix(PREFIX)
    try:
        claims = _read_earlier(key, text) if text.count(".") == 1 else _read(key, text)
    except (jwt.InvalidSignatureError, jwt.InvalidAudienceError):
        raise UnauthenticatedError("this token of a step was not made by this service") from None
    except (jwt.InvalidTokenError, KeyError, TypeError, ValueError):
        raise UnauthenticatedError("this token of a step is damaged") from None
    if claims.expires_at <= now:
        raise UnauthenticatedError(f"the token of the step '{claims.step}' has expired")
    return claims


def _read(key: bytes, text: str) -> Claims:
    options: jwt.types.Options = {
        "require": ["aud", "exp"],
        "verify_exp": False,
    }  # by the service's own clock
    said = jwt.decode(text, key, [_ALGORITHM], options, audience=_AUDIENCE)
    values = {name: str(said[name]) for name in _NAMES}
    return Claims(**values, expires_at=round(said["exp"] * SECOND))


def _read_earlier(key: bytes, text: str) -> Claims:
    """A token without a header, as version 0.1 made them for steps that may run for 90 days."""
    body, _, signature = text.partition(".")
    said = _decode(body)
    if not HMACAlgorithm(HMACAlgorithm.SHA256).verify(said, key, _decode(signature)):
        raise jwt.InvalidSignatureError
    return Claims(**json.loads(said))


def _decode(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
