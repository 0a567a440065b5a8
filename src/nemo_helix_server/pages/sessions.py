"""Sessions of browsers: a code that is good once becomes a cookie, bound to a role and to an end.

A code and a session are 256 random bits; only their SHA-256 is kept. Codes live in memory, sessions in a file
of the data directory that its owner alone can read, so that a restart of the service signs nobody out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.auth import tokens
from nemo_helix_server.errors import UnauthenticatedError
from nemo_helix_server.jobs.model import Caller, Token
from nemo_runs.clock import SECOND, Clock
from nemo_runs.durable import files

FILE = "page-sessions.json"
MOST = 1000
"""Sessions, and codes, that are kept; the oldest go first."""
HOW_TO_ENTER = "`nemo services open` prints an address that opens the pages"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageGrant:
    """Whom a code lets in, as what."""

    name: str
    """Who acts, as it is written into the history of jobs."""
    role: str
    workspace: str | None = None
    """The only workspace it is for."""
    token: str | None = None
    """Digest of the access token that it was made with; it ends with that token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSession:
    """A browser that was let in; moments are microseconds UTC."""

    digest: str
    grant: PageGrant
    expires_at: int


@dataclass(slots=True)
class PageSessions:
    """Lets browsers in and out; every method can be called from any thread."""

    file: Path
    key: bytes
    """The service's signing key."""
    clock: Clock
    token_of: Callable[[str], Token | None]
    """The access token of a digest."""
    seconds: int
    """How long a session lasts."""
    code_seconds: int
    """How long a code is good."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _codes: dict[str, tuple[PageGrant, int]] = field(default_factory=dict)
    _sessions: dict[str, PageSession] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sessions = {session.digest: session for session in _read(self.file)}

    @property
    def cookie(self) -> str:
        """The cookie's name. A browser keeps one jar for all ports, so each service has a name of its own."""
        return f"nhx_session_{hmac.digest(self.key, b'page cookie', 'sha256').hex()[:12]}"

    def code(self, grant: PageGrant) -> str:
        """A new code, good once and for ``code_seconds``."""
        code = secrets.token_urlsafe(32)
        now = self.clock.now()
        with self._lock:
            live = {digest: made for digest, made in self._codes.items() if made[1] > now}
            live[_digest(code)] = (grant, now + self.code_seconds * SECOND)
            self._codes = dict(list(live.items())[-MOST:])
        return code

    def enter(self, code: str) -> str:
        """The value of a new session's cookie, for a code; raises `UnauthenticatedError`.

        The code is worthless afterwards.
        """
        with self._lock:
            grant, expires_at = self._codes.pop(_digest(code), (None, 0))
        if grant is None or expires_at <= self.clock.now():
            raise UnauthenticatedError(
                f"this address was used already, or is older than {self.code_seconds} seconds; {HOW_TO_ENTER}"
            )
        return self.begin(grant)

    def with_token(self, token: str) -> str:
        """The value of a new session's cookie, for an access token; raises `UnauthenticatedError`."""
        digest = tokens.digest_of(token)
        caller = tokens.caller_of(self.token_of(digest), self.clock.now())
        return self.begin(
            PageGrant(name=caller.name, role=caller.role, workspace=caller.workspace, token=digest)
        )

    def begin(self, grant: PageGrant) -> str:
        """A new session."""
        value = secrets.token_urlsafe(32)
        now = self.clock.now()
        session = PageSession(digest=_digest(value), grant=grant, expires_at=now + self.seconds * SECOND)
        with self._lock:
            live = [one for one in self._sessions.values() if one.expires_at > now]
            self._keep([*live, session][-MOST:])
        return value

    def caller(self, value: str | None) -> Caller:
        """Who has a session of this cookie; raises `UnauthenticatedError`."""
        session = self._sessions.get(_digest(value)) if value else None
        now = self.clock.now()
        if session is None or session.expires_at <= now:
            raise UnauthenticatedError(f"you are not signed in, or no longer; {HOW_TO_ENTER}")
        grant = session.grant
        if grant.token is not None:
            tokens.caller_of(self.token_of(grant.token), now)  # raises once the token is no longer good
        return Caller(name=grant.name, role=grant.role, workspace=grant.workspace)

    def leave(self, value: str) -> None:
        """End a session."""
        with self._lock:
            if _digest(value) in self._sessions:
                self._keep([one for one in self._sessions.values() if one.digest != _digest(value)])

    def csrf(self, value: str) -> str:
        """What a form of this session must send back."""
        return hmac.digest(self.key, b"page form " + value.encode(), "sha256").hex()

    def is_csrf(self, value: str, given: str) -> bool:
        """Whether a form sent what this session's forms have."""
        return hmac.compare_digest(self.csrf(value).encode(), given.encode("utf-8", "surrogatepass"))

    def _keep(self, sessions: list[PageSession]) -> None:
        self._sessions = {session.digest: session for session in sessions}
        document = [dataclasses.asdict(session) for session in sessions]
        files.replace_file(self.file, json.dumps(document).encode() + b"\n", mode=0o600)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def _read(file: Path) -> list[PageSession]:
    """The sessions of a file; none where it is missing or damaged: everybody enters again."""
    try:
        found = json.loads(file.read_bytes())
        sessions = [
            PageSession(
                digest=str(one["digest"]),
                grant=PageGrant(**one["grant"]),
                expires_at=int(one["expires_at"]),
            )
            for one in found
        ]
        return [session for session in sessions if Role(session.grant.role)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
