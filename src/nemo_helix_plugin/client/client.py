"""The clients: `NemoClient`, and `AsyncNemoClient` for programs that use ``await``.

::

    with NemoClient.from_config() as client:
        client.jobs.pause_job(name="automodel-a1b2c3d4e5f6", workspace="default")

Sub-clients are attributes: `jobs`, `customization`, `files`, `models`, `workspaces`, `secrets`, `tokens`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

from nemo_helix_plugin.client import groups, options, session, tuning_groups
from nemo_helix_plugin.client.base import BaseClient, made_options, resolved_arguments
from nemo_helix_plugin.client.retries import RetryPolicy

if TYPE_CHECKING:
    from nemo_helix_plugin.config.contexts import Resolved


class NemoClient(BaseClient):
    """A client of the service; close it, or use it in a ``with`` block."""

    def __init__(
        self,
        *,
        base_url: str | None = None,
        workspace: str | None = None,
        auth: options.Auth = None,
        default_headers: Mapping[str, str] | None = None,
        timeout: float | None = options.DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
        http_client: httpx.Client | None = None,
        owns_http_client: bool | None = None,
        transport: httpx.BaseTransport | None = None,
        url_resolver: Callable[[str], str] | None = None,
        client_runtime: options.ClientRuntime | None = None,
        certificate_authority: str | os.PathLike[str] | None = None,
        context: str | None = None,
        origin: str | None = None,
    ) -> None:
        if http_client is not None and transport is not None:
            raise TypeError("NemoClient() takes http_client or transport, not both")
        self._options = made_options(
            base_url=base_url,
            auth=auth,
            default_headers=default_headers,
            retry=retry,
            client_runtime=client_runtime,
            certificate_authority=certificate_authority,
            workspace=workspace,
            timeout=timeout,
            url_resolver=url_resolver,
            context=context,
            origin=origin,
        )
        self._owns = http_client is None if owns_http_client is None else owns_http_client
        self._http = http_client or httpx.Client(transport=transport, **session.connection(self._options))
        self._session = session.Session(self._http, self._options)

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
    def from_client(cls, client: NemoClient) -> Self:
        """A client of this class over the connection of another one, which stays its owner."""
        derived = cls.__new__(cls)
        derived._adopt(client._http, client._options)  # noqa: SLF001 - its own class
        return derived

    @property
    def jobs(self) -> groups.JobsClient:
        """Jobs, their attempts, steps, tasks, results, logs and checkpoints."""
        return groups.JobsClient(self._session)

    @property
    def customization(self) -> tuning_groups.CustomizationClient:
        """Fine-tuning jobs by backend, and saved specs."""
        return tuning_groups.CustomizationClient(self._session)

    @property
    def files(self) -> tuning_groups.FilesClient:
        """Filesets and their files."""
        return tuning_groups.FilesClient(self._session)

    @property
    def models(self) -> tuning_groups.ModelsClient:
        """Models by name."""
        return tuning_groups.ModelsClient(self._session)

    @property
    def workspaces(self) -> groups.WorkspacesClient:
        """Workspaces."""
        return groups.WorkspacesClient(self._session)

    @property
    def secrets(self) -> groups.SecretsClient:
        """Secrets of a workspace."""
        return groups.SecretsClient(self._session)

    @property
    def tokens(self) -> groups.TokensClient:
        """Access tokens."""
        return groups.TokensClient(self._session)

    def to_async(self, *, transport: httpx.AsyncBaseTransport | None = None) -> AsyncNemoClient:
        """An asynchronous client with the same options and a connection of its own."""
        derived = AsyncNemoClient.__new__(AsyncNemoClient)
        http = httpx.AsyncClient(transport=transport, **session.connection(self._options))
        derived._adopt(http, self._options, owns=True)  # noqa: SLF001 - the clients are one family
        return derived

    def close(self) -> None:
        """Hang up, if the connection is this client's own."""
        if self._owns:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _derived(self, changed: options.ClientOptions) -> Self:
        derived = type(self).__new__(type(self))
        derived._adopt(self._http, changed)  # noqa: SLF001 - its own class
        return derived

    def _adopt(self, http: httpx.Client, adopted: options.ClientOptions) -> None:
        self._http, self._options, self._owns = http, adopted, False
        self._session = session.Session(http, adopted)


class AsyncNemoClient(BaseClient):
    """The same for ``await``; close it with `aclose`, or use it in an ``async with`` block."""

    def __init__(
        self,
        *,
        base_url: str | None = None,
        workspace: str | None = None,
        auth: options.Auth = None,
        default_headers: Mapping[str, str] | None = None,
        timeout: float | None = options.DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
        http_client: httpx.AsyncClient | None = None,
        owns_http_client: bool | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        url_resolver: Callable[[str], str] | None = None,
        client_runtime: options.ClientRuntime | None = None,
        certificate_authority: str | os.PathLike[str] | None = None,
        context: str | None = None,
        origin: str | None = None,
    ) -> None:
        if http_client is not None and transport is not None:
            raise TypeError("AsyncNemoClient() takes http_client or transport, not both")
        made = made_options(
            base_url=base_url,
            auth=auth,
            default_headers=default_headers,
            retry=retry,
            client_runtime=client_runtime,
            certificate_authority=certificate_authority,
            workspace=workspace,
            timeout=timeout,
            url_resolver=url_resolver,
            context=context,
            origin=origin,
        )
        owns = http_client is None if owns_http_client is None else owns_http_client
        self._adopt(
            http_client or httpx.AsyncClient(transport=transport, **session.connection(made)), made, owns=owns
        )

    @classmethod
    def from_config(
        cls, context: str | None = None, config_path: str | os.PathLike[str] | None = None, **changes: Any
    ) -> Self:
        """A client for a context of the configuration file; see `NemoClient.from_config`."""
        from nemo_helix_plugin.config.contexts import resolve

        return cls.from_resolved(resolve(context=context, path=config_path), **changes)

    @classmethod
    def from_resolved(cls, resolved: Resolved, **changes: Any) -> Self:
        """A client for what `config.contexts.resolve` found."""
        return cls(**{**resolved_arguments(resolved), **changes})

    @classmethod
    def from_client(cls, client: AsyncNemoClient) -> Self:
        """A client of this class over the connection of another one, which stays its owner."""
        derived = cls.__new__(cls)
        derived._adopt(client._http, client._options)  # noqa: SLF001 - its own class
        return derived

    @property
    def jobs(self) -> groups.AsyncJobsClient:
        """Jobs, their attempts, steps, tasks, results, logs and checkpoints."""
        return groups.AsyncJobsClient(self._session)

    @property
    def customization(self) -> tuning_groups.AsyncCustomizationClient:
        """Fine-tuning jobs by backend, and saved specs."""
        return tuning_groups.AsyncCustomizationClient(self._session)

    @property
    def files(self) -> tuning_groups.AsyncFilesClient:
        """Filesets and their files."""
        return tuning_groups.AsyncFilesClient(self._session)

    @property
    def models(self) -> tuning_groups.AsyncModelsClient:
        """Models by name."""
        return tuning_groups.AsyncModelsClient(self._session)

    @property
    def workspaces(self) -> groups.AsyncWorkspacesClient:
        """Workspaces."""
        return groups.AsyncWorkspacesClient(self._session)

    @property
    def secrets(self) -> groups.AsyncSecretsClient:
        """Secrets of a workspace."""
        return groups.AsyncSecretsClient(self._session)

    @property
    def tokens(self) -> groups.AsyncTokensClient:
        """Access tokens."""
        return groups.AsyncTokensClient(self._session)

    async def aclose(self) -> None:
        """Hang up, if the connection is this client's own."""
        if self._owns:
            await self._http.aclose()

    close = aclose

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _derived(self, changed: options.ClientOptions) -> Self:
        derived = type(self).__new__(type(self))
        derived._adopt(self._http, changed)  # noqa: SLF001 - its own class
        return derived

    def _adopt(self, http: httpx.AsyncClient, adopted: options.ClientOptions, *, owns: bool = False) -> None:
        self._http, self._options, self._owns = http, adopted, owns
        self._session = session.AsyncSession(http, adopted)
