"""Who a request comes from: an access token, a step's token, or on loopback simply this machine."""

from __future__ import annotations

import functools
import getpass
from dataclasses import dataclass, field

from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.auth import step_tokens, tokens
from nemo_helix_server.auth.step_tokens import Claims
from nemo_helix_server.errors import ForbiddenError, UnauthenticatedError
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import SECOND, Clock

STEP_TOKEN_SECONDS = 90 * 24 * 3600
"""Also the end of a token whose job is still there; it is worthless as soon as the job has ended."""
_TOUCH_EVERY = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from."""

    caller: Caller
    claims: Claims | None = None
    """Of a step's token: all that it may touch."""

    def check_own(self, workspace: str, job: str, step: str | None, task: str | None) -> None:
        """Raise `ForbiddenError` when this is a step, and what is asked about is not itself."""
        if self.claims is None:
            return
        own = self.claims
        same_job = workspace == own.workspace and job in {own.job, own.job_id}
        if not same_job or step not in {None, own.step} or task not in {None, own.task}:
            raise ForbiddenError(
                f"the token of the step '{own.step}' of '{own.job}' is for that step and its own task alone"
            )


@dataclass(slots=True)
class Authenticator:
    """Reads the credentials of requests."""

    store: JobStore
    key: bytes
    clock: Clock
    required: bool
    """Whether a request without credentials is nobody; otherwise it is this machine's user."""
    _touched: dict[str, int] = field(default_factory=dict)

    def principal(self, credentials: str | None) -> Principal:
        """Who presents these credentials; those that are presented count, required or not."""
        if credentials is None:
            if self.required:
                raise UnauthenticatedError(
                    f"this service needs an access token (Authorization: Bearer …); {tokens.HOW_TO_GET_ONE}"
                )
            return Principal(Caller(name=_local_user(), role=Role.ADMIN))
        if credentials.startswith(step_tokens.PREFIX):
            return self._of_step(credentials)
        return self._of_token(credentials)

    def step_token(self, *, workspace: str, job: str, job_id: str, step: str, task: str) -> str | None:
        """The token that a step is started with; `None` where it needs none."""
        if not self.required:
            return None
        expires_at = self.clock.now() + STEP_TOKEN_SECONDS * SECOND
        return step_tokens.sign(self.key, Claims(workspace, job, job_id, step, task, expires_at))

    def _of_token(self, credentials: str) -> Principal:
        now = self.clock.now()
        with self.store.read() as reader:
            record = reader.tokens.by_digest(tokens.digest_of(credentials))
        caller = tokens.caller_of(record, now)
        if record is not None and now - self._touched.get(record.id, 0) >= _TOUCH_EVERY:
            self._touched[record.id] = now
            with self.store.write() as writer:
                writer.tokens.touch(record.id)
        return Principal(caller)

    def _of_step(self, credentials: str) -> Principal:
        claims = step_tokens.read(self.key, credentials, self.clock.now())
        if claims.is_maintenance:
            return Principal(Caller(name=_local_user(), role=Role.ADMIN))
        with self.store.read() as reader:
            job = reader.jobs.by_id(claims.job_id)
        if job is None or job.name != claims.job or job.status.is_terminal:
            raise UnauthenticatedError(f"the job '{claims.job}' of this step's token has ended")
        caller = Caller(name=f"step:{claims.job}/{claims.step}", role=Role.READ, workspace=claims.workspace)
        return Principal(caller, claims)


@functools.cache
def _local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "local"
