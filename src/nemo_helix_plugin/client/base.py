"""What the synchronous and the asynchronous client share: their options, and copies with other ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from nemo_helix_plugin.addresses import DEFAULT_BASE_URL, checked_base_url
from nemo_helix_plugin.client.options import (
    Auth,
    ClientOptions,
    ClientRuntime,
)
from nemo_helix_plugin.client.retries import RetryPolicy

if TYPE_CHECKING:
    from nemo_helix_plugin.config.contexts import Resolved

_KEEP: Any = object()


def made_options(
    *,
    base_url: str | None,
    auth: Auth,
    default_headers: Mapping[str, str] | None,
    retry: RetryPolicy | None,
    client_runtime: ClientRuntime | None,
    certificate_authority: str | os.PathLike[str] | None,
    **others: Any,
) -> ClientOptions:
    """Options out of a client's arguments; raises ValueError for a base URL that is none."""
    return ClientOptions(
        base_url=checked_base_url(base_url or DEFAULT_BASE_URL),
        auth=auth or None,
        headers=dict(default_headers or {}),
        retry=retry or RetryPolicy(),
        runtime=client_runtime or ClientRuntime(),
        certificate_authority=os.fspath(certificate_authority) if certificate_authority else None,
        **others,
    )


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


class BaseClient:
    """What both kinds of clients share: options, and copies with other ones."""

    _options: ClientOptions

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
        """A client over the same connection, with some options changed."""
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
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._options.where}>"
