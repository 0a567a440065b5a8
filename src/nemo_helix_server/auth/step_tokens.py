"""Tokens of steps: signed claims, nothing kept. A step may read itself and write its own task.

The key is a file of the data directory that only the service's user can read. The same key signs the tokens
of commands that look after the service on its own machine (`Claims.maintenance`): who can read the file
could read the database too.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from nemo_helix_server.errors import ServerError, UnauthenticatedError
from nemo_runs import files

PREFIX = "nhxs_"
KEY_FILE = "signing.key"
_KEY_BYTES = 32


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
    """The token that says ``claims``."""
    body = json.dumps(dataclasses.asdict(claims), separators=(",", ":")).encode()
    return PREFIX + _encode(body) + "." + _encode(_mac(key, body))


def read(key: bytes, token: str, now: int) -> Claims:
    """What a token of this key says; raises `UnauthenticatedError` when it is forged, damaged or too old."""
    body_text, _, mac_text = token.removeprefix(PREFIX).partition(".")
    try:
        body, mac = _decode(body_text), _decode(mac_text)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise UnauthenticatedError("this token of a step is damaged") from None
    if not hmac.compare_digest(mac, _mac(key, body)):
        raise UnauthenticatedError("this token of a step was not made by this service")
    claims = Claims(**json.loads(body))
    if claims.expires_at <= now:
        raise UnauthenticatedError(f"the token of the step '{claims.step}' has expired")
    return claims


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
