"""Access tokens on a data directory itself, where there is no service to ask, or no token to ask it with."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nemo_helix_plugin.access.types import CreateTokenRequest
from nemo_helix_server import settings
from nemo_helix_server.auth import step_tokens
from nemo_helix_server.commands import holder
from nemo_helix_server.engines import environments
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.isolation import Isolation, judge
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.service.token_store import TokenStore
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import SystemClock

_COLUMNS = ("name", "id", "role", "workspace", "created_at", "expires_at", "last_used_at", "revoked_at")


def create(
    data_dir: Path, name: str | None, role: str, workspace: str | None, expires_in_seconds: int | None
) -> dict[str, Any]:
    """Make a token; the answer is the only place where it is shown."""
    given = {"name": name, "role": role, "workspace": workspace, "expires_in_seconds": expires_in_seconds}
    try:
        body = CreateTokenRequest.model_validate(given)
    except ValidationError as error:
        raise InvalidError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from error
    with _token_store(data_dir) as token_store:
        return token_store.create(Caller(name=getpass.getuser()), body)


def every(data_dir: Path) -> list[dict[str, Any]]:
    """What may be known of all tokens."""
    with _token_store(data_dir) as token_store:
        return token_store.all()


def revoke(data_dir: Path, token: str) -> None:
    """Make a token worthless."""
    with _token_store(data_dir) as token_store:
        token_store.revoke(token)


def as_text(found: Sequence[dict[str, Any]]) -> str:
    """Tokens as a table."""
    rows = [_COLUMNS, *(tuple(str(token[name] or "-") for name in _COLUMNS) for token in found)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


@contextmanager
def _token_store(data_dir: Path) -> Iterator[TokenStore]:
    folder = holder.prepare(data_dir)
    clock = SystemClock()
    given = settings.load(overrides={"data_dir": folder})
    store = JobStore(given.store_url(), clock)
    try:
        store.migrate()
        step_tokens.load_key(folder)
        isolation = Isolation(given, environments.cache_folder(os.environ))
        yield TokenStore(store, clock, judge(isolation, tokens_required=True))
    finally:
        store.close()
