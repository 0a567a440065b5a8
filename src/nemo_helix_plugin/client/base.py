"""What the synchronous and the asynchronous client share: their options, and copies with other ones."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import httpx

from nemo_helix_plugin.addresses import DEFAULT_BASE_URL, checked_base_url
from nemo_helix_plugin.client.options import DEFAULT_TIMEOUT, Auth, ClientOptions, ClientRuntime
from nemo_helix_plugin.client.retries import RetryPolicy

if TYPE_CHECKING:
    from nemo_helix_plugin.config.contexts import Resolved

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Transport = TypeVar("Transport", httpx.BaseTransport, httpx.AsyncBaseTransport)

_KEEP: Any = object()


def resolved_arguments(resolved: Resolved) -> dict[str, Any]:
    """Arguments of a client for what flags, environment and file led to; it repeats calls as commands do."""
    return {
        "base_url": resolved.base_url,
        "workspace": resolved.workspace,
        "auth": resolved.access_token,
        "certificate_authority": resolved.certificate_authority,
        "context": resolved.context,
        "origin": resolved.origin,
        "retry": RetryPolicy.platform(),
    }


class BaseClient(ABC, Generic[Http, Transport]):
    """What both kinds of clients share: how they are made, their options, and copies with other ones."""

    _http: Http
    _options: ClientOptions
    _owns: bool

    def __init__(
        self,
        *,
        base_url: str | None = None,
        workspace: str | None = None,
        auth: Auth = None,
        default_headers: Mapping[str, str] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
        http_client: Http | None = None,
        owns_http_client: bool | None = None,
        transport: Transport | None = None,
        url_resolver: Callable[[str], str] | None = None,
        client_runtime: ClientRuntime | None = None,
        certificate_authority: str | os.PathLike[str] | None = None,
        context: str | None = None,
        origin: str | None = None,
    ) -> None:
        if http_client is not None and transport is not None:
            raise TypeError(f"{type(self).__name__}() takes http_client or transport, not both")
        options = ClientOptions(
            base_url=checked_base_url(base_url or DEFAULT_BASE_URL),
            auth=auth or None,
            headers=dict(default_headers or {}),
            retry=retry or RetryPolicy(),
            runtime=client_runtime or ClientRuntime(),
            certificate_authority=os.fspath(certificate_authority) if certificate_authority else None,
            workspace=workspace,
            timeout=timeout,
            url_resolver=url_resolver,
            context=context,
            origin=origin,
        )
        owns = http_client is None if owns_http_client is None else owns_http_client
        self._adopt(http_client or self._connected(transport, options), options, owns=owns)

    @classmethod
    def from_config(
        cls, context: str | None = None, config_path: str | os.PathLike[str] | None = None, **changes: Any
    ) -> Self:
        """A client for a context of the configuration file, by default the current one.

        Without a file it talks to http://localhost:8080 in the workspace ``default``. Raises `ConfigError`.
        """
        from nemo_helix_plugin.config.contexts import resolve

        return cls.from_resolved(resolve(context=context, path=config_path), **changes)

    @classmethod
    def from_resolved(cls, resolved: Resolved, **changes: Any) -> Self:
        """A client for what `config.contexts.resolve` found."""
        return cls(**{**resolved_arguments(resolved), **changes})

    @classmethod
    def from_client(cls, client: BaseClient[Http, Transport]) -> Self:
        """A client of this class over the connection of another one, which stays its owner."""
        derived = cls.__new__(cls)
        derived._adopt(client._http, client._options, owns=False)  # noqa: SLF001 - the clients are one family
        return derived

    @abstractmethod
    def _connected(self, transport: Transport | None, options: ClientOptions) -> Http:
        """A connection of this client's own."""

    @abstractmethod
    def _adopt(self, http: Http, adopted: ClientOptions, *, owns: bool) -> None:
        """Take a connection and options; whether `close` hangs up is said by ``owns``."""

    @property
    def base_url(self) -> str:
        """Where the service is."""
        return self._options.base_url

    @property
    def workspace(self) -> str | None:
        """The workspace of calls that name none."""
        return self._options.workspace

    @property
    def context(self) -> str | None:
        """Name of the context that the client was made from."""
        return self._options.context

    @property
    def client_options(self) -> ClientOptions:
        """Everything that the client was made with."""
        return self._options

    def with_options(
        self,
        *,
        timeout: float | None = _KEEP,
        retry: RetryPolicy = _KEEP,
        workspace: str | None = _KEEP,
        auth: Auth = _KEEP,
    ) -> Self:
        """A client over the same connection, with some options changed; ``timeout`` in seconds."""
        given = {"timeout": timeout, "retry": retry, "workspace": workspace, "auth": auth}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not _KEEP}
        return self._derived(replace(self._options, **changes))

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """A client over the same connection that sends these headers too."""
        return self._derived(replace(self._options, headers={**self._options.headers, **headers}))

    def with_workspace(self, workspace: str | None) -> Self:
        """A client over the same connection for another workspace."""
        return self._derived(replace(self._options, workspace=workspace))

    def with_retry(self, retry: RetryPolicy) -> Self:
        """A client over the same connection that repeats calls by another policy."""
        return self._derived(replace(self._options, retry=retry))

    def _derived(self, changed: ClientOptions) -> Self:
        derived = type(self).__new__(type(self))
        derived._adopt(self._http, changed, owns=False)  # noqa: SLF001 - its own class
        return derived

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._options.where}>"
