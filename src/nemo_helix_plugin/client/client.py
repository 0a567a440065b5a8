"""The clients: `NemoClient`, and `AsyncNemoClient` for programs that use ``await``.

::

    with NemoClient.from_config() as client:
        client.jobs.pause_job(name="automodel-a1b2c3d4e5f6", workspace="default")

Sub-clients are attributes: `jobs`, `profiles`, `customization`, `files`, `models`, `workspaces`, `secrets`,
`tokens`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from nemo_helix_plugin.client import groups, session, tuning_groups
from nemo_helix_plugin.client.base import BaseClient
from nemo_helix_plugin.client.options import ClientOptions


class NemoClient(BaseClient[httpx.Client, httpx.BaseTransport]):
    """A client of the service; close it, or use it in a ``with`` block."""

    @property
    def jobs(self) -> groups.JobsClient:
        """Jobs, their attempts, steps, tasks, results, logs and checkpoints."""
        return groups.JobsClient(self._session)

    @property
    def profiles(self) -> groups.ProfilesClient:
        """Execution profiles: where steps can run."""
        return groups.ProfilesClient(self._session)

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
        http = httpx.AsyncClient(
            transport=transport, **session.connection(self._options, direct=transport is not None)
        )
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

    def _connected(self, transport: httpx.BaseTransport | None, options: ClientOptions) -> httpx.Client:
        return httpx.Client(transport=transport, **session.connection(options, direct=transport is not None))

    def _adopt(self, http: httpx.Client, adopted: ClientOptions, *, owns: bool) -> None:
        self._http, self._options, self._owns = http, adopted, owns
        self._session = session.ClientSession(http, adopted)


class AsyncNemoClient(BaseClient[httpx.AsyncClient, httpx.AsyncBaseTransport]):
    """The same for ``await``; close it with `aclose`, or use it in an ``async with`` block."""

    @property
    def jobs(self) -> groups.AsyncJobsClient:
        """Jobs, their attempts, steps, tasks, results, logs and checkpoints."""
        return groups.AsyncJobsClient(self._session)

    @property
    def profiles(self) -> groups.AsyncProfilesClient:
        """Execution profiles: where steps can run."""
        return groups.AsyncProfilesClient(self._session)

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

    def _connected(
        self, transport: httpx.AsyncBaseTransport | None, options: ClientOptions
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=transport, **session.connection(options, direct=transport is not None)
        )

    def _adopt(self, http: httpx.AsyncClient, adopted: ClientOptions, *, owns: bool) -> None:
        self._http, self._options, self._owns = http, adopted, owns
        self._session = session.AsyncSession(http, adopted)
