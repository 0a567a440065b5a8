"""The access tokens of a service: made, listed and revoked, through its API or on its data directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.access.types import CreateTokenRequest
from nemo_helix_server.auth import tokens
from nemo_helix_server.errors import StateConflictError, UnknownNameError
from nemo_helix_server.isolation import Boundary
from nemo_helix_server.jobs import identifiers
from nemo_helix_server.jobs.model import Caller, Token
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import Clock, wire


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Makes tokens and takes them back."""

    store: JobStore
    clock: Clock
    boundary: Boundary | None = None
    """Whether a token of one workspace keeps its holder out of the others; `None`: nobody tried."""

    def create(self, caller: Caller, body: CreateTokenRequest) -> dict[str, Any]:
        """Make a token; the answer is the only place where it is ever shown."""
        minted, now = tokens.mint(), self.clock.now()
        record = Token(
            id=identifiers.entity_id("access-token"),
            name=body.name or identifiers.job_name("token"),
            digest=minted.digest,
            role=body.role,
            workspace=body.workspace,
            created_at=now,
            created_by=caller.name,
            expires_at=tokens.expiry(now, body.expires_in_seconds),
            revoked_at=None,
            last_used_at=None,
        )
        with self.store.write() as writer:
            if any(other.name == record.name and usable(other, now) for other in writer.tokens.all()):
                raise StateConflictError(
                    f"there is a token '{record.name}' already; revoke it or choose another name"
                )
            writer.tokens.put(record)
        return {**shown(record), "token": minted.token, "note": self._note(record)}

    def confined(self, name: str) -> bool:
        """Whether somebody of this name has, or had, a token of one workspace alone."""
        with self.store.read() as reader:
            return any(token.name == name and token.workspace is not None for token in reader.tokens.all())

    def _note(self, record: Token) -> str | None:
        known = record.role == "admin" and record.workspace is not None and self.boundary is not None
        return self.boundary.sentence if known and self.boundary and not self.boundary.holds else None

    def all(self) -> list[dict[str, Any]]:
        """What may be known of all tokens, the newest first."""
        with self.store.read() as reader:
            return [shown(record) for record in reader.tokens.all()]

    def any_usable(self) -> bool:
        """Whether anybody could use the service with a token."""
        now = self.clock.now()
        with self.store.read() as reader:
            return any(usable(record, now) for record in reader.tokens.all())

    def revoke(self, token: str) -> dict[str, Any]:
        """Make a token, given by name or id, worthless; it stays listed."""
        with self.store.write() as writer:
            record = writer.tokens.revoke(token)
        if record is None:
            raise UnknownNameError(f"there is no token '{token}'; `nemo auth token list` shows them")
        return shown(record)


def usable(record: Token, now: int) -> bool:
    """Whether a token is neither revoked nor expired."""
    return record.revoked_at is None and (record.expires_at is None or record.expires_at > now)


def shown(record: Token) -> dict[str, Any]:
    """What may be known of a token."""
    moments = {
        name: None if value is None else wire(value)
        for name, value in (
            ("created_at", record.created_at),
            ("expires_at", record.expires_at),
            ("last_used_at", record.last_used_at),
            ("revoked_at", record.revoked_at),
        )
    }
    return {
        "id": record.id,
        "name": record.name,
        "role": record.role,
        "workspace": record.workspace,
        **moments,
    }
