"""What a client knows about the service it talks to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from nemo_helix_plugin.addresses import DEFAULT_BASE_URL, shown_url
from nemo_helix_plugin.client.retries import RetryPolicy

DEFAULT_TIMEOUT = 60.0

Auth = str | Callable[[], str | None] | None
"""A token, or a function that gives one whenever it is needed."""


@dataclass(frozen=True, slots=True)
class ClientRuntime:
    """Time, as a client sees it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    async_sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Everything that derived clients may differ in; the connection itself is shared."""

    base_url: str = DEFAULT_BASE_URL
    workspace: str | None = None
    auth: Auth = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float | None = DEFAULT_TIMEOUT
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    url_resolver: Callable[[str], str] | None = None
    context: str | None = None
    """Name of the context that this came from; it is said in messages."""
    origin: str | None = None
    """What set the base URL, if not the context: an environment variable or an option."""
    certificate_authority: str | None = None
    runtime: ClientRuntime = field(default_factory=ClientRuntime, repr=False)

    @property
    def where(self) -> str:
        """Base URL and context, for messages."""
        notes = [f"context {self.context}"] if self.context else []
        notes += [f"from {self.origin}"] if self.origin else []
        shown = shown_url(self.base_url)
        return f"{shown} ({', '.join(notes)})" if notes else shown

    def url(self, path: str) -> str:
        """Where a path of the API is."""
        return self.url_resolver(path) if self.url_resolver else self.base_url.rstrip("/") + path

    def token(self) -> str | None:
        """The access token, if there is one."""
        return self.auth() if callable(self.auth) else self.auth
